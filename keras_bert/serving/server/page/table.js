// ---- A table: the rows of a CSV file or of pasted text are answered in batches.

const ROWS_TOGETHER = 32;
const MOST_ERRORS = 5; // Errors that are listed above the preview; all are in the file.
const PREVIEW = 10;
// Common names of the columns of each input.
const COLUMN_NAMES = {
  text: ["text", "sentence", "sentence1", "premise", "question", "question1", "review", "source", "#1 string"],
  pair: ["pair", "text2", "sentence2", "hypothesis", "question2", "#2 string"],
  question: ["question"],
  context: ["context", "passage", "paragraph"],
  choices: ["choices", "options"],
};
const CHOICE = /^((choice|option|answer|ending)([ _-]|(?=[0-9])))?([0-9]+|[a-z])$/i;
const NAME = /^(?=.*\p{L})[\p{L}\p{M}\p{N}_ #()/-]{1,40}$/u;
// What pandas calls its index, and columns without a name; an index that it wrote itself has an empty name.
const UNNAMED = /^Unnamed: [0-9]+(_level_[0-9]+)?$/;
const ADDRESS = /^\S+:\/\/\S+$/;
const LOOKED_AT = 200; // Rows that tell what columns are.
const OTHER_NAMES = ["label", "labels", "id", "index", "idx", "score", "title", "answer", "target"];

// The answer to a row: pairs of a column of the file, as `predict --output` names it, and its value. A third element is
// shown in the preview instead of the value.
const ANSWER_COLUMNS = {
  classification({ labels, label, probabilities, predicted }) {
    const chosen = predicted
      ? [["labels", JSON.stringify(labels.filter((_, index) => predicted[index]))]]
      : [["label", label], ["score", Math.max(...probabilities)]];
    return [...chosen, ...(labels.length > 20 ? [] : labels.map((name, index) => [`score_${name}`, probabilities[index]]))];
  },
  regression: ({ score, value = score }) => [["value", value]],
  answering(row, { context }) {
    const at = characters(context);
    const { answer, probability, score, null_score: none } = row;
    const found = [["answer", answer], ["score", probability], ["start", at(row.start)], ["end", at(row.end)]];
    if (none === undefined) return found;
    return [...found, ["null_score", row.start < 0 ? probability : probability * Math.exp(none - score)]];
  },
  tagging(row, { text }) {
    const at = characters(text);
    const found = [...Array(row.entity_count).keys()].map((index) => ({
      text: row.entities[index], label: row.entity_types[index],
      start: at(row.entity_starts[index]), end: at(row.entity_ends[index]), score: Number(row.entity_scores[index]),
    }));
    return [["entities", JSON.stringify(found), found.map((each) => `${each.text} (${each.label})`).join(", ")]];
  },
  masking({ tokens, probabilities, mask_count: masks }) {
    const fills = tokens.slice(0, masks).map(
      (each, mask) => each.map((token, index) => ({ token, score: probabilities[mask][index] })));
    return [["fills", JSON.stringify(fills), fills.map((each) => each[0].token).join(" ")]];
  },
  next_sentence: ({ probability }) => [["probability", probability]],
  choice: ({ choice, probabilities }, { choices }) => [
    ["choice", choice < 0 ? "" : choice, choices[choice] ?? ""],
    ["scores", JSON.stringify(probabilities.slice(0, choices.length)), Math.max(...probabilities.slice(0, choices.length))],
  ],
  translation: ({ translation, scores }) => [["translation", translation], ["score", scores[0]]],
  embedding: ({ embedding }) => [["embedding", JSON.stringify(embedding)]],
};

const sheet = { text: "", file: null, mark: "", separator: ",", rows: [], answers: [], running: null };

// Called for a new model or task: the rows stay, their answers do not.
function drawTable() {
  byId("table").hidden = !ANSWER_COLUMNS[signature()?.kind];
  stopTable();
  readRows();
}

function stopTable() {
  sheet.running?.abort();
  sheet.running = null;
  sheet.answers = [];
  for (const id of ["download", "cancel", "progress"]) byId(id).hidden = true;
  byId("table_status").textContent = "";
  for (const id of ["preview", "table_errors"]) byId(id).replaceChildren();
}

// Reads the rows again, and guesses the separator, unless it is given, and whether they have a header.
function readRows(separator = separatorOf(sheet.text)) {
  sheet.separator = byId("separator").value = separator;
  sheet.rows = parseTable(sheet.text, sheet.separator);
  byId("header").checked = hasHeader(sheet.rows);
  drawColumns();
}

// Whether the first row has the names of the columns: usual ones, or short words that differ from the cells below them,
// which are numbers, longer texts, or a few values that repeat.
function hasHeader([first = [], ...others]) {
  const names = first.map((cell) => cell.trim());
  const known = [...Object.values(COLUMN_NAMES).flat(), ...OTHER_NAMES];
  const trained = Object.keys(signature()?.inputs ?? {}).flatMap(trainedColumns);
  if (names.some((name) => known.includes(name.toLowerCase()) || UNNAMED.test(name) || trained.includes(name))) return true;
  if (names.some((name, place) => name === "" && isIndex(others, place))) return true;
  if (!others.length || new Set(names).size < names.length || !names.every((name) => NAME.test(name))) return false;
  return names.some((name, place) => {
    const cells = cellsOf(others, place).filter(Boolean);
    const repeated = names.length > 1 && cells.length > 3 && new Set(cells).size <= cells.length / 2;
    const least = name.length * (names.length > 1 ? 1 : 2);
    const texts = !/\s/.test(name) && cells.every((cell) => cell.length > least && /\S\s+\S+\s+\S/.test(cell));
    return cells.length > 0 && !cells.includes(name) && (repeated || texts || cells.every(isNumber));
  });
}

const cellsOf = (rows, place) => rows.slice(0, LOOKED_AT).map((row) => (row[place] ?? "").trim());

// Whether the rows have different whole numbers in a column.
function isIndex(rows, place) {
  const cells = cellsOf(rows, place);
  const areNumbers = cells.every((cell) => /^[0-9]+$/.test(cell));
  return cells.length > 0 && areNumbers && new Set(cells).size === cells.length;
}

const isNumber = (cell) => /^[+-]?[0-9.,]*[0-9]%?$/.test(cell.trim());

function drawColumns() {
  const inputs = Object.keys(signature()?.inputs ?? {});
  const [names, rows] = split();
  const titles = names.map((name, index) => name.trim() || `column ${index + 1}`);
  const options = () => titles.map((title, index) => node("option", { value: index }, title));
  const known = inputs.map((input) => knownColumns(input, names));
  const free = textColumns(names, rows).filter((place) => !known.flat().includes(place));
  const left = known.filter((places) => !places.length).length;
  const texts = free.slice(0, left).sort((one, other) => one - other); // In the order of the file.
  byId("columns").replaceChildren(...(names.length > 1 ? inputs : []).map((input, index) => {
    const several = signature().inputs[input] === 2;
    const size = several ? { multiple: "", size: Math.min(names.length, 6) } : {};
    const chooser = node("select", { id: `column_${input}`, ...size }, ...options());
    const usual = known[index];
    const chosen = usual.length ? usual : [texts.shift() ?? Math.min(index, names.length - 1)];
    for (const option of chooser.options) option.selected = chosen.includes(Number(option.value));
    const title = several ? `Columns of “${input}”, or one with | between them` : `Column of “${input}”`;
    return node("div", {}, node("label", { for: `column_${input}` }, title), chooser);
  }));
  const enough = names.length >= inputs.length;
  byId("answer_all").disabled = !rows.length || !enough;
  const missing = enough ? "" : ` Expected a column for each input of the model: ${inputs.join(", ")}.`;
  const many = names.length > 1 ? `, ${count(names.length, "column")} separated by ${SEPARATORS[sheet.separator]}` : "";
  const source = sheet.file ? `${sheet.file}: ` : "";
  byId("table_status").textContent = sheet.rows.length ? `${source}${count(rows.length, "row")}${many}.${missing}` : "";
  byId("preview").replaceChildren(...(sheet.rows.length ? [dataTable("Preview", names, rows.slice(0, 3))] : []));
}

// The numbers of the columns of texts, the longest first; neither those of numbers, such as ids, nor pandas' index.
function textColumns(names, rows) {
  const lengths = names.map((name, place) => {
    if (UNNAMED.test(name.trim())) return 0;
    const cells = cellsOf(rows, place);
    if (cells.every((cell) => !cell || isNumber(cell) || ADDRESS.test(cell))) return 0;
    return cells.reduce((sum, cell) => sum + cell.length, 0);
  });
  const places = [...names.keys()].filter((place) => lengths[place] > 0);
  return places.sort((one, other) => lengths[other] - lengths[one]);
}

// The numbers of the columns for an input: those that the model was trained on, or else one with a usual name, or all
// columns of choices.
function knownColumns(input, names) {
  const trained = trainedColumns(input).map((column) => names.findIndex((name) => name.trim() === column));
  if (trained.length && !trained.includes(-1)) return trained;
  const places = [...names.keys()];
  const choices = places.filter((place) => input === "choices" && CHOICE.test(names[place].trim()));
  if (choices.length > 1) return choices;
  return places.filter((place) => COLUMN_NAMES[input]?.includes(names[place].trim().toLowerCase())).slice(0, 1);
}

// The names of the columns that the model was trained on, if its export tells them.
const trainedColumns = (input) => [described?.facts?.columns?.[input] ?? []].flat();

function chosenColumns(input) {
  const chooser = byId(`column_${input}`);
  return chooser ? [...chooser.selectedOptions].map((option) => Number(option.value)) : [0];
}

// The names of the columns, and the rows without the header.
function split() {
  const [first = [], ...others] = sheet.rows;
  return byId("header").checked ? [first, others] : [first.map((_, index) => `column ${index + 1}`), sheet.rows];
}

function setText(text, file = null, mark = "") {
  stopTable();
  Object.assign(sheet, { text, file, mark });
  byId("file_name").textContent = file ?? "";
  readRows();
}

async function readFile(file) {
  byId("rows").value = ""; // A long file would slow the page down.
  setText("");
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const encoding = { "255,254": "utf-16le", "254,255": "utf-16be" }[bytes.slice(0, 2).join()] ?? "utf-8";
    const mark = encoding !== "utf-8" || bytes.slice(0, 3).join() === "239,187,191" ? "\ufeff" : "";
    setText(new TextDecoder(encoding, { fatal: true }).decode(bytes), file.name, mark);
  } catch {
    listErrors([`${file.name} is not text in UTF-8. Save it as “CSV UTF-8”.`]);
  }
}

async function answerAll() {
  stopTable();
  const running = (sheet.running = new AbortController());
  const [names, rows] = split();
  const columns = Object.keys(signature().inputs).map((input) => [input, chosenColumns(input)]);
  const together = signature().kind === "choice" ? 1 : ROWS_TOGETHER; // Rows may have different numbers of choices.
  const began = performance.now();
  byId("cancel").hidden = byId("progress").hidden = false;
  let problem = null;
  try {
    while (sheet.answers.length < rows.length) {
      const batch = rows.slice(sheet.answers.length, sheet.answers.length + together);
      sheet.answers.push(...await answerBatch(batch.map((cells) => given(cells, names, columns)), running.signal));
      showProgress(rows.length, performance.now() - began);
    }
  } catch (error) {
    if (sheet.running === running) problem = error.name === "AbortError" ? "Cancelled." : error.message;
  }
  if (sheet.running === running) showTable(problem);
}

// The inputs of a row, or `{ error }`.
function given(cells, names, columns) {
  if (cells.length !== names.length) {
    return { error: `expected ${count(names.length, "column")}, found ${cells.length}` };
  }
  const row = {};
  for (const [input, places] of columns) {
    const parts = places.map((place) => cells[place]);
    const isChoices = signature().inputs[input] === 2;
    row[input] = isChoices ? choicesOf(parts) : parts[0];
    if (isChoices && row[input].filter(Boolean).length < 2) return { error: "expected at least 2 choices" };
    if (!isChoices && !parts[0].trim()) return { error: `column “${names[places[0]]}” is empty` };
  }
  return row;
}

// The choices of a row: each cell is one; a single cell is split at bars or line breaks.
function choicesOf(cells) {
  return (cells.length === 1 ? cells[0].split(/\||\r?\n/) : cells).map((cell) => cell.trim());
}

async function answerBatch(batch, signal) {
  const answers = await answerRows(batch.filter((row) => !row.error), signal);
  return batch.map((row) => (row.error ? row : answers.shift()));
}

// If the server rejects a batch, its halves are sent, until the faulty rows are found.
async function answerRows(rows, signal) {
  if (!rows.length) return [];
  const { name, kind, inputs, outputs: names } = signature();
  const columns = Object.keys(inputs).map((input) => [input, rows.map((row) => row[input])]);
  try {
    const asked = { signature_name: name, inputs: Object.fromEntries(columns) };
    const path = `${pathOf(state.model)}/versions/${described.version}:predict`;
    const { outputs } = await request(path, asked, signal);
    const named = names.length === 1 ? { [names[0]]: outputs } : outputs;
    const at = (index) => Object.fromEntries(Object.entries(named).map(([key, values]) => [key, values[index]]));
    return rows.map((row, index) => {
      const answer = at(index);
      return { columns: [...ANSWER_COLUMNS[kind](answer, row), ...Object.entries(tokenCounts(answer, row))] };
    });
  } catch (error) {
    if (![400, 413].includes(error.status)) throw error;
    if (rows.length === 1) return [{ error: error.message }];
    const half = rows.length >> 1;
    return [...await answerRows(rows.slice(0, half), signal), ...await answerRows(rows.slice(half), signal)];
  }
}

function showProgress(total, milliseconds) {
  const done = sheet.answers.length;
  const left = Math.ceil(milliseconds * (total - done) / done / 1000);
  byId("progress").value = done / total;
  const rest = left > 60 ? `${Math.ceil(left / 60)} min` : `${left} s`;
  byId("table_status").textContent = `${done} of ${count(total, "row")}${done < total ? `, about ${rest} left` : ""}`;
}

function showTable(problem) {
  byId("cancel").hidden = byId("progress").hidden = true;
  const [names, rows] = split();
  const errors = sheet.answers.flatMap(({ error }, index) => (error ? [`Row ${index + 1}: ${error}`] : []));
  const more = errors.length > MOST_ERRORS ? [`… and ${count(errors.length - MOST_ERRORS, "further error")}.`] : [];
  listErrors([...(problem ? [problem] : []), ...errors.slice(0, MOST_ERRORS), ...more]);
  const [head, ...lines] = answered(names, rows, PREVIEW, true);
  const shown = sheet.answers.length > PREVIEW ? `; the first ${PREVIEW} are shown` : "";
  byId("table_status").textContent =
    `${sheet.answers.length} of ${count(rows.length, "row")}, ${count(errors.length, "error")}${shown}`;
  byId("download").hidden = !sheet.answers.length;
  byId("preview").replaceChildren(...(lines.length ? [dataTable("First rows with answers", head, lines)] : []));
}

function dataTable(title, head, lines) {
  const cell = (tag) => (text) => node(tag, { class: "cut" }, node("bdi", {}, text));
  const body = lines.map((line) => node("tr", {}, ...line.map(cell("td"))));
  const heads = node("tr", {}, ...head.map((name) => node("th", { scope: "col" }, name)));
  return scroll(title, node("table", {}, node("thead", {}, heads), node("tbody", {}, ...body)));
}

function listErrors(messages) {
  byId("table_errors").replaceChildren(...messages.map((text) => node("p", { class: "error" }, text)));
}

// The lines of the file: the columns of the rows, of their answers, the error and surplus cells.
function answered(names, rows, most = Infinity, isPreview = false) {
  const columns = sheet.answers.find((answer) => answer.columns)?.columns ?? [];
  const lines = sheet.answers.slice(0, most).map((answer, index) => {
    const cells = names.map((_, place) => rows[index][place] ?? "");
    const found = columns.map((_, place) => cellText(answer.columns?.[place].at(isPreview ? -1 : 1)));
    return [...cells, ...found, answer.error ?? "", ...rows[index].slice(names.length)];
  });
  const taken = new Set(names);
  const error = unique("error", taken); // Before classes of this name.
  return [[...names, ...columns.map(([name]) => unique(name, taken)), error], ...lines];
}

function unique(name, taken) {
  const free = taken.has(name) ? unique(`predicted_${name}`, taken) : name;
  taken.add(free);
  return free;
}

const cellText = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : value ?? "");

function download() {
  const separator = sheet.separator || ",";
  const [names, rows] = split();
  const shown = (cell, place) => (place < names.length ? cell : asText(cell)); // Columns of the rows stay as they are.
  const lines = answered(names, rows).map((cells) => csvLine(cells.map(shown), separator));
  const file = new Blob([sheet.mark, lines.join("\n"), "\n"], { type: "text/csv;charset=utf-8" });
  const link = node("a", { download: `${(sheet.file ?? "table.csv").replace(/\.\w+$/, "")}.answers.csv` });
  link.href = URL.createObjectURL(file);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

byId("rows").addEventListener("input", () => setText(byId("rows").value));
byId("file").addEventListener("change", async () => {
  const [file] = byId("file").files;
  if (file) await readFile(file);
  byId("file").value = ""; // So that the same file can be chosen again after a change.
});
byId("separator").append(...Object.entries(SEPARATORS).map(([value, name]) => node("option", { value }, name)));
byId("separator").addEventListener("change", () => {
  stopTable();
  readRows(byId("separator").value);
});
byId("header").addEventListener("change", () => {
  stopTable();
  drawColumns();
});
byId("columns").addEventListener("change", stopTable);
byId("answer_all").addEventListener("click", answerAll);
byId("cancel").addEventListener("click", () => sheet.running?.abort());
byId("download").addEventListener("click", download);
// A file that misses the section must not replace the page.
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (!byId("table").hidden && event.dataTransfer.files[0]) readFile(event.dataTransfer.files[0]);
});
for (const [name, over] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
  byId("table").addEventListener(name, () => byId("table").classList.toggle("over", over));
}
