// ---- Why: the words of a text, coloured by what they do to the logit of its answer, by the signature `explain`.

// A button for models that were exported with `explain=True`, whose place the words take.
function why(given) {
  const place = node("div", { class: "why" });
  const press = button("Which words?", async () => {
    press.disabled = true;
    place.replaceChildren(press, remark("Waiting for the words …"));
    try {
      const asked = { ...body(given), signature_name: "explain" };
      const path = `${pathOf(state.model)}/versions/${described.version}:predict`;
      const { outputs } = await request(path, asked, fresh());
      const row = Object.fromEntries(Object.entries(outputs).map(([name, values]) => [name, values[0]]));
      place.replaceChildren(...explained(row, given));
    } catch (error) {
      place.replaceChildren(press, remark(error.name === "AbortError" ? "Cancelled." : error.message));
      press.disabled = false;
    }
  });
  place.append(press);
  return place;
}

function explained(row, given) {
  const words = [...Array(row.word_count).keys()].map((index) => ({
    start: row.starts[index], end: row.ends[index], score: Number(row.scores[index]), input: row.inputs[index],
  }));
  const most = Math.max(...words.map(({ score }) => Math.abs(score)), 1e-9);
  const textOf = (input) => (input === "choice" ? lines(given.choices)[row.target] : given[input]);
  const passages = [...new Set(words.map(({ input }) => input))].map((input) => {
    const spans = words.filter((word) => word.input === input);
    return passage(...marked(textOf(input), spans, (text, { score }) => effect(text, score, score / most)));
  });
  const [value, baseline] = [row.value, row.baseline].map((each) => Number(each).toFixed(2));
  const title = node("h3", { tabindex: -1 }, `Why${nameOf(row, words, given)}`);
  setTimeout(() => title.focus()); // Where the button was, which is gone.
  const sum = words.length ? `The logit is ${value}, and ${baseline} with all words replaced.` : "There are no words.";
  return [title, remark(sum), ...passages, legend()];
}

// What has the logit: a class, the tag of a word, a choice; a score has no name.
function nameOf({ target, word = -1 }, words, given) {
  if (target === undefined || target === "") return "";
  const name = lines(given.choices ?? "")[target] ?? target;
  if (word < 0) return ` “${name}”`;
  const { start, end } = words[word];
  return ` “${name}” for “${cutter(given.text)(start, end)}”`;
}

const signed = (score) => `${score < 0 ? "−" : "+"}${Math.abs(score).toFixed(2)}`;

function effect(text, score, share) {
  const told = signed(score);
  const side = score < 0 ? "down" : "up";
  const word = node("span", { class: `effect ${side}`, tabindex: 0, role: "note", "aria-label": `${text} ${told}`, "data-score": told }, text);
  word.style.setProperty("--share", `${Math.round(60 * Math.abs(share))}%`);
  return word;
}

function legend() {
  const sample = (text, side) => {
    const made = node("span", { class: `effect ${side}` }, text);
    made.style.setProperty("--share", "40%");
    return made;
  };
  return node("p", { class: "soft" }, sample("solid line, blue", "up"), " raises the logit, ", sample("dashed line, orange", "down"),
    " lowers it; the stronger the colour, the more. The number is what the logit loses without the word: hover over a word, " +
    "tap it, or move to it by the tab key.");
}
