"""Sentences and passages of several kinds, which show the sizes of activations if there is no calibration data."""

SENTENCES = (
    "Who repaired the bridge, and how long did it take?",
    "I ordered two of these in March and both broke within a week.",
    "What is the boiling point of water at an altitude of 3,000 metres?",
    "She laughed, closed the book, and walked out into the rain.",
    "Is the meeting on Thursday at 9:30 or at 10 o'clock?",
    "The film is far too long, but its last scene is wonderful.",
    "Where was the treaty signed?",
    "Nobody answered the phone.",
)
PASSAGES = (
    "The stone bridge over the Lenne was built in 1742 by order of the town council and has been repaired four "
    "times since. In the winter of 1809 drifting ice destroyed two of its five arches; a carpenter named Johann "
    "Brandt replaced them with oak beams within eleven days, and the beams stayed in use until a railway "
    "engineer, Clara Voss, had them exchanged for iron in 1868. Today about 3,200 cars cross it every day, "
    "although lorries of more than 7.5 tonnes have to take the road through the valley.",
    "Water boils when the pressure of its vapour equals that of the air above it. At sea level this happens at "
    "100 °C, at 3,000 metres already at about 90 °C, which is why potatoes take longer to cook in the mountains. "
    "A pressure cooker reverses the effect: at twice the normal pressure, water boils at roughly 120 °C. Salt "
    "raises the boiling point as well, but a spoonful in a pot changes it by less than a tenth of a degree.",
    "I have used this coffee machine every morning for six months now. The first thing you notice is how quiet it"
    " is; my old one woke up the children. Cleaning takes five minutes, the tank is large enough for eight cups, "
    "and the milk comes out hot. My only complaint is the manual: it is printed in tiny letters, and half of the "
    "pictures show another model. Customer service replied to my e-mail after nine days, which is not great "
    "either.",
    "When the last guests had gone, Mrs. Hale put out the lamps one after the other and sat down at the window. "
    '"You might have told him," she said at last. Her brother did not turn round. He had been watching the lights'
    " of the harbour, where a steamer was leaving for Lisbon, and he knew that it would be a year, perhaps two, "
    'before any letter could reach the man on board. "I might," he answered, "and then he would have stayed."',
    "LONDON - Shares of the chip maker fell 6.4% on Wednesday after the company cut its forecast for the third "
    "quarter, citing weak demand for phones in Asia. Revenue is now expected to be between $4.1 billion and $4.3 "
    'billion, down from an earlier estimate of $4.9 billion. Analysts at two banks lowered their ratings. "We see'
    ' no recovery before the spring," chief executive Ingrid Solberg told reporters, adding that no jobs would be'
    " lost in the factory in Wales.",
    "The common swift spends most of its life in the air. It eats, drinks and even sleeps on the wing, and a "
    "young bird that has left the nest may not touch the ground for two or three years. Swifts feed on flying "
    "insects, which they catch with their wide mouths at speeds of up to 110 kilometres per hour. In late summer "
    "they leave Europe for Africa, south of the equator, and return in May to the same hole under the same roof.",
    "To install the update, first close all programs and connect the laptop to its charger. Open Settings, choose"
    ' System, then Recovery, and press "Check again". If error 0x80070057 appears, delete the folder '
    "C:\\Temp\\cache and restart. The download is about 2.3 GB; on slow lines (under 10 Mbit/s) it may take more "
    "than an hour. Do not switch the device off while the bar is moving. Version 4.12 also fixes the bug that "
    "turned photos by 90 degrees.",
    "The council of the two cities met in the chapel of Saint Agnes on 3 October 1381 to end eleven years of war."
    " Under the treaty, Arden gave back the castles of Holm and Weir, the toll on wool was lowered to four pence "
    "a sack, and both sides swore to hang pirates without delay. The bishop, who was ill, signed with a cross. "
    "The peace lasted for nineteen years, until a quarrel about fishing rights set the coast on fire once more.",
    "Type 2 diabetes develops when the body no longer responds to insulin as it should. In a study of 4,118 "
    "adults, those who walked for at least 30 minutes on five days of the week had a 23% lower risk (95% "
    "confidence interval, 14% to 31%) than those who did not. The effect was larger in people over 60. The "
    "authors note that the participants chose their own amount of exercise, so that other habits may explain part"
    " of the difference.",
    "so i finally tried the new place on 5th street lol. waited 40 min for a table!! the noodles were ok i guess,"
    " bit salty, but omg the dumplings... best i ever had, no joke. our waiter was super nice & brought free tea."
    " prices are fair ($12-18 for a main). would i go again? yep, just not on a saturday. #foodie @marta you have"
    " to come next time :) also they have parking behind the house, which nobody tells you.",
    "Let f be a continuous function on the closed interval from a to b, and let y be any number between f(a) and "
    "f(b). Then there is a point c in the interval with f(c) = y. The proof halves the interval again and again: "
    "in each step one keeps the half at whose ends f lies on different sides of y. The lengths tend to zero, the "
    "left ends form an increasing sequence with an upper bound, and its limit is the wanted point, because f is "
    "continuous there.",
    "The defendant, a former clerk of the shipping company Ostrander & Sons, appealed against the judgment of 14 "
    "May. He argued that the letters found in his desk had been obtained without a warrant. The court of appeal "
    "rejected this: the desk belonged to the company, the company had given its consent, and clause 9(b) of his "
    "contract named such searches expressly. The sentence of eighteen months was upheld, the fine reduced from "
    "20,000 to 12,500 dollars.",
)
