// ---- Answers: each function returns a headline and elements.

const SHOW = {
  classification({ labels, probabilities, predicted, answered }) {
    const sorted = best(labels.map((label, index) => ({ label, share: probabilities[index], predicted: predicted?.[index] })));
    if (!predicted && answered === false) return ["no answer", ...bars(sorted), remark("The model is not sure enough to answer.")];
    if (!predicted) return [sorted[0].label, ...bars(sorted)];
    // Multi-label: several labels may apply, or none.
    const headline = labels.filter((_, index) => predicted[index]).join(", ") || "none";
    const thresholds = described.facts.options?.thresholds ?? null;
    const threshold = ({ label }) => (Array.isArray(thresholds) ? thresholds[labels.indexOf(label)] : thresholds);
    const note = thresholds === null ? [] : [remark("A label applies if its bar reaches its threshold, the mark in the bar.")];
    return [headline, ...bars(sorted.map((item) => ({ ...item, best: item.predicted, threshold: threshold(item) }))), ...note];
  },

  zero_shot: (row) => SHOW.classification(row),

  regression({ score, value = score }) {
    const range = described.facts.range;
    if (!range) return [decimals(value)];
    const share = (value - range[0]) / (range[1] - range[0]);
    const ends = node("p", { class: "ends soft" }, node("span", {}, decimals(range[0])), node("span", {}, decimals(range[1])));
    return [decimals(value), track(share), ends, remark("The ends are the range of the training labels.")];
  },

  answering(row, { context }) {
    const many = row.answers ?? [row.answer];
    const found = many.map((answer, index) => ({
      answer, start: row.starts?.[index] ?? row.start, end: row.ends?.[index] ?? row.end,
      score: row.scores?.[index] ?? row.score, share: row.probabilities?.[index],
    })).filter((each) => each.start >= 0);
    const text = passage();
    const mark = (words) => node("mark", {}, words);
    const point = (spans) => {
      text.replaceChildren(...marked(context, spans, mark));
      reveal(text);
    };
    point(found.slice(0, 1));
    const none = noAnswer(row);
    const known = found.filter((each) => each.share !== undefined || none !== null);
    const items = best(known.map((each) => (
      { ...each, label: each.answer, chosen: each === found[0], share: (each.share ?? 1) * (1 - (none ?? 0)) })));
    const press = (index) => {
      point([items[index]]);
      return true;
    };
    const refusal = none === null ? [] : [node("h3", {}, "No answer in the text"), ...bars([{ label: "No answer", share: none }])];
    const answers = items.length ? [node("h3", {}, "Answers"), ...bars(items, press)] : [];
    return [found.length ? found[0].answer : "No answer", text, ...answers, ...refusal];
  },

  tagging(row, { text }) {
    const found = [...Array(row.entity_count).keys()].map((index) => ({
      start: row.entity_starts[index], end: row.entity_ends[index],
      type: row.entity_types[index], score: row.entity_scores[index],
    }));
    const parts = marked(text, found, entity);
    const headline = found.length === 1 ? "1 entity" : `${found.length || "No"} entities`;
    const tokens = () => table(["Token", "Tag", "Score"], row.tokens.slice(0, row.token_count).map(
      (token, index) => [token, row.tags[index], percent(row.scores[index])]));
    return [headline, passage(...parts), folded("Tokens and tags", tokens)];
  },

  masking(row, { text }) {
    if (!row.mask_count) {
      return [text.includes("[MASK]") ? "The [MASK] is beyond the longest text that the model takes" : "There is no [MASK] in the text"];
    }
    const whole = passage();
    const parts = text.split("[MASK]");
    const masks = row.tokens.slice(0, row.mask_count);
    const chosen = Array(parts.length - 1).fill("[MASK]");
    const fill = () => {
      const pieces = chosen.map((piece, mask) => (piece === "[MASK]" && masks[mask]?.[0]) || piece);
      whole.replaceChildren(...fitted(parts, pieces).map((part, index) => (index % 2 ? node("mark", {}, part) : part)));
    };
    fill();
    const lists = masks.flatMap((tokens, mask) => {
      const items = best(tokens.map((label, index) => ({ label, share: row.probabilities[mask][index] })));
      const press = (index) => {
        const taken = chosen[mask] !== items[index].label;
        chosen[mask] = taken ? items[index].label : "[MASK]";
        fill();
        byId("field_text").value = fitted(parts, chosen).join("");
        changed();
        return taken;
      };
      return [node("h3", {}, masks.length > 1 ? `Mask ${mask + 1}` : "Candidates"), ...bars(items, press)];
    });
    const cut = parts.length - 1 - row.mask_count;
    const note = cut > 0 ? [remark(`The input was truncated before ${count(cut, "further mask")}.`)] : [];
    return [masks.map((tokens) => tokens[0]).join(", "), whole, ...note, ...lists];
  },

  next_sentence({ probability }) {
    const share = Number(probability);
    const items = best([{ label: "The second text follows", share }, { label: "It does not", share: 1 - share }]);
    const headline = share >= 0.5 ? "The second text follows the first" : "The second text does not follow the first";
    return [headline, ...bars(items)];
  },

  choice({ choice, probabilities }, given) {
    const options = lines(given.choices);
    return [options[choice] ?? "no answer", ...bars(best(options.map((label, index) => ({ label, share: probabilities[index] }))))];
  },

  embedding(row, given, { embedding }) {
    const rows = lines(given.text);
    const most = 30;
    const note = rows.length > most ? [remark(`Only the first ${most} texts are shown.`)] : [];
    const shown = rows.slice(0, most);
    const matrix = rows.length > 1 ? [node("h3", {}, "Cosine similarity"), similarities(shown, embedding)] : [];
    const first = embedding.map((vector) => vector.slice(0, 5).map((value) => Number(value).toFixed(4)));
    const names = rows.length > 1 ? shown.map((_, index) => `${index + 1}`) : shown;
    const values = table(["Text", ...first[0].map((_, index) => `[${index}]`)],
      names.map((name, index) => [name, ...first[index]]), rows.length > 1 ? {} : { class: "pairs" });
    const headline = `${count(rows.length, "text")}, ${count(embedding[0].length, "value")} each`;
    return [headline, ...note, ...matrix, node("h3", {}, "First values"), values];
  },

  translation({ translation, translations, scores, truncated }) {
    const note = truncated ? [remark("The end of the text was cut off: it is longer than the model’s positions.")] : [];
    const others = translations.map((text, index) => [text, Number(scores[index]).toFixed(2)]);
    return [translation, ...note, ...(others.length > 1 ? [node("h3", {}, "Best translations"), table(["Translation", "Score"], others, { class: "whole" })] : [])];
  },

  alignment({ translation, source_tokens: source, target_tokens: target, attention }) {
    const head = node("tr", {}, ...["", ...source.filter(Boolean)].map(
      (piece) => node("th", { scope: "col" }, node("div", { class: "turn" }, node("bdi", {}, piece)))));
    const rows = target.filter(Boolean).map((piece, row) => {
      const cells = source.filter(Boolean).map((_, column) => {
        const cell = node("td", { title: percent(attention[row][column]) });
        cell.style.setProperty("--share", `${100 * attention[row][column]}%`);
        return cell;
      });
      return node("tr", {}, node("th", { scope: "row" }, node("bdi", {}, piece)), ...cells);
    });
    const map = node("table", { class: "heat reads" }, node("thead", {}, head), node("tbody", {}, ...rows));
    const note = remark("Each row is a piece of the translation; dark cells are the pieces of the text that it reads.");
    return [translation, node("h3", {}, "Attention"), note, scroll("Attention", map)];
  },

  raw(outputs) {
    return [signature().name, json(outputs)];
  },
};

// The probability that the text has no answer, relative to its best answer: at least 50% if the model refuses to answer.
// Only for models that were trained on such questions; others never refuse.
function noAnswer(row) {
  const threshold = described.facts.options?.null_threshold ?? null;
  if (threshold === null) return null;
  return 1 / (1 + Math.exp(Number(row.score) + threshold - Number(row.null_score)));
}

// ---- Parts of answers.

// Sorts items in descending order and marks the first as the best.
function best(items) {
  const sorted = [...items].sort((a, b) => b.share - a.share);
  return sorted.map((item, index) => ({ ...item, best: index === 0 }));
}

// With `press`, the labels are buttons; `press` takes an index and returns whether it is now selected.
function bars(items, press = null, most = 20) {
  const all = node("ol", { class: "bars" }, ...items.slice(0, most).map((item, index) => bar(item, index, press)));
  if (items.length <= most) return [all];
  const more = button(`Show all ${items.length}`, () => {
    all.append(...items.slice(most).map((item, index) => bar(item, index + most, press)));
    more.remove();
    all.children[most].tabIndex = -1;
    all.children[most].focus();
  });
  return [all, more];
}

function bar({ label, share, best, chosen = false, threshold = null }, index, press) {
  const isButton = { class: "word", dir: "auto", "aria-pressed": chosen };
  const name = press ? button(label, pressed, isButton) : node("bdi", {}, label);
  function pressed() {
    const on = press(index);
    const all = name.closest("ol").querySelectorAll("button");
    for (const other of all) other.setAttribute("aria-pressed", on && other === name);
  }
  return node("li", best ? { class: "best" } : {}, node("span", {}, name), node("span", {}, percent(share)), track(share, threshold));
}

function track(share, threshold = null) {
  const filled = node("span");
  filled.style.width = `${100 * Math.min(Math.max(share, 0), 1) || 0}%`;
  if (threshold === null) return node("span", { class: "track", "aria-hidden": "true" }, filled);
  const mark = node("span", { class: "threshold", title: `threshold ${percent(threshold)}` });
  mark.style.left = `${100 * threshold}%`;
  return node("span", { class: "track", "aria-hidden": "true" }, filled, mark);
}

// Returns a function that cuts a text at UTF-8 byte offsets, which the server returns.
function cutter(text) {
  const bytes = new TextEncoder().encode(text);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return (start, end) => decoder.decode(bytes.subarray(start, end));
}

// Returns a function from byte offsets to offsets in code points, as in Python; -1 for no answer remains.
function characters(text) {
  const part = cutter(text);
  return (at) => (at < 0 ? at : [...part(0, at)].length);
}

// Splits a text at spans, which `make` renders.
function marked(text, spans, make) {
  const part = cutter(text);
  const parts = [];
  let at = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < at) continue;
    parts.push(part(at, span.start), make(part(span.start, span.end), span));
    at = span.end;
  }
  return [...parts, part(at)];
}

// Scrolls a text, not the page, to its first mark.
function reveal(text) {
  const mark = text.querySelector("mark");
  const distance = mark ? mark.getBoundingClientRect().top - text.getBoundingClientRect().top : 0;
  text.scrollTop += distance - text.clientHeight / 3;
}

function entity(words, { type, score }) {
  if (!hues.has(type)) hues.set(type, hues.size % 6);
  // The words determine the text direction; <bdi> isolates the label.
  const label = node("bdi", {}, `${type} ${percent(score)}`);
  return node("mark", { class: `entity hue${hues.get(type)}` }, words, label);
}

// The parts of a text with tokens between them; a "##" token is joined to the previous word.
function fitted(parts, pieces) {
  return parts.flatMap((part, index) => {
    const goesOn = pieces[index]?.startsWith("##");
    const before = goesOn ? part.trimEnd() : part;
    return index < pieces.length ? [before, goesOn ? pieces[index].slice(2) : pieces[index]] : [before];
  });
}

function similarities(texts, vectors) {
  const length = (vector) => Math.hypot(...vector);
  const cosine = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0) / (length(a) * length(b));
  const heads = ["", ...texts.map((_, index) => `${index + 1}`)];
  const head = node("tr", {}, ...heads.map((name) => node("th", { scope: "col" }, name)));
  const rows = texts.map((text, row) => {
    const cells = texts.map((_, column) => {
      const value = cosine(vectors[row], vectors[column]);
      const cell = node("td", {}, value.toFixed(2));
      cell.style.setProperty("--share", `${Math.max(value, 0) * 35 || 0}%`);
      return cell;
    });
    return node("tr", {}, node("th", { scope: "row", title: text }, node("bdi", {}, `${row + 1}  ${text}`)), ...cells);
  });
  const body = node("tbody", {}, ...rows);
  return scroll("Cosine similarity", node("table", { class: "heat pairs" }, node("thead", {}, head), body));
}

function table(heads, rows, attributes = {}) {
  const head = node("tr", {}, ...heads.map((name) => node("th", { scope: "col" }, name)));
  const lines = rows.map(([first, ...cells]) => node("tr", {}, node("th", { scope: "row" }, node("bdi", {}, first)),
    ...cells.map((cell) => node("td", {}, cell))));
  return scroll(heads.join(", "), node("table", attributes, node("thead", {}, head), node("tbody", {}, ...lines)));
}

// Scrollable regions are focusable by keyboard and have a name.
const region = (name) => ({ tabindex: 0, role: "region", "aria-label": name });
const scroll = (name, content) => node("div", { class: "scroll", ...region(name) }, content);
const passage = (...parts) => node("div", { class: "text", dir: "auto", ...region("Text") }, ...parts);
const json = (value) => node("pre", region("JSON"), JSON.stringify(value, null, 1));
// How many tokens a text has, how many of them the model read, in how many windows, and which of these spoke most, in
// characters. Exports of earlier versions do not tell.
function tokenCounts(row, given) {
  const { tokens, text_tokens: all = tokens, tokens_read: read, windows } = row;
  if (read === undefined) return {};
  const counts = { tokens: all, tokens_read: read, ...(windows === undefined ? {} : { windows }) };
  if (row.strongest_start === undefined) return counts;
  const at = characters(windowed(given));
  return { ...counts, strongest: JSON.stringify({ start: at(row.strongest_start), end: at(row.strongest_end) }) };
}

// The text that has windows: of a pair, the second one.
const windowed = ({ text, pair }) => pair ?? text;

// A text of several windows, with a mark on the one that spoke most.
function strongestWindow({ windows, strongest_start: start, strongest_end: end }, given) {
  if (start === undefined || windows < 2) return [];
  const parts = marked(windowed(given), [{ start, end }], (words) => node("mark", {}, words));
  return [node("h3", {}, `The strongest of ${windows} windows`), passage(...parts)];
}

const remark = (text) => node("p", { class: "soft" }, text);

function list(pairs) {
  const parts = Object.entries(pairs).flatMap(([name, text]) => [node("dt", {}, name), node("dd", {}, text)]);
  return node("dl", {}, ...parts);
}

// Created only when opened, since it may be long.
function folded(title, make) {
  const made = node("details", {}, node("summary", {}, title));
  made.addEventListener("toggle", () => made.children.length > 1 || made.append(make()));
  return made;
}
