// ---- Display name and example of each kind of task.

const NAMES = {
  question: "Question", context: "Context", text: "Text", pair: "Second text", choices: "Choices, one per line",
  labels: "Labels, one per line",
};
const KINDS = {
  classification: ["Classify", { text: "A charming and often affecting journey.", pair: "It is worth seeing." }],
  zero_shot: ["Classify with your own labels", {
    text: "The striker scored twice in the second half.", labels: "sport\npolitics\nweather",
  }],
  regression: ["Score", { text: "A man is playing a guitar.", pair: "Somebody plays an instrument." }],
  answering: ["Answer a question", {
    question: "Where was Zoë born?",
    context: "Zoë Müller was born in Zürich 🏔️ in 1961. She studied in Montréal. Since 1994 she lives in Kyōto (京都).",
  }],
  tagging: ["Find entities", { text: "Zoë Müller of the Red Cross met Kofi Annan at a café in Genève on Monday." }],
  masking: ["Fill masks", { text: "Paris is the [MASK] of France. It lies on the [MASK]." }],
  next_sentence: ["Next sentence", { text: "She went to the market.", pair: "There she bought a basket of apples." }],
  choice: ["Choose", {
    text: "In the morning the streets were wet.",
    choices: "It had rained at night.\nThe sun had shone all day.\nThe library was closed.",
  }],
  embedding: ["Embed", { text: "A cat sleeps on the sofa.\nA kitten naps on the couch.\nThe share price fell." }],
  translation: ["Translate", { text: "Ein Mann spielt Gitarre." }],
  alignment: ["Attention of a translation", { text: "Ein Mann spielt Gitarre." }],
  raw: ["", {}],
};

// ---- State: the selected model and task and the typed texts; survives a reload.

const KEY = "keras_bert.page";
const state = Object.assign({ model: null, task: {}, texts: {} }, restore());
let described = null; // The result of `describe` for the selected model.
let running = new AbortController();
let hues = new Map(); // Entity type -> colour, the same in all answers of a model.
let again; // A timer: while no model is available, the server is polled.

function restore() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

function keep() {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    // The page also works without storage, or if the text exceeds its quota.
  }
}

const signature = () => described?.signatures[state.task[state.model]];

// A new request cancels the previous one.
function fresh() {
  running.abort();
  clearTimeout(again);
  running = new AbortController();
  return running.signal;
}

// ---- The form.

async function start() {
  const signal = fresh();
  try {
    const { models } = await request("v1/models", null, signal);
    byId("model").replaceChildren(...models.map((name) => node("option", { value: name }, name)));
    if (!models.length) {
      return wait("There is no model yet. Models added to the folder as NAME/1 appear here.", start);
    }
    state.model = models.includes(state.model) ? state.model : models[0];
    byId("model").value = state.model;
    await choose();
  } catch (error) {
    if (error.name !== "AbortError") wait(error.message, start);
  }
}

async function choose() {
  const signal = fresh();
  try {
    const { model_version_status: versions } = await request(pathOf(state.model), null, signal);
    const told = versions.filter((each) => each.status.error_message);
    const problems = told.map((each) => `Version ${each.version} failed to load: ${each.status.error_message}`);
    if (!versions.some((each) => each.state === "AVAILABLE")) {
      return wait(problems.join("\n") || `The model is ${(versions[0]?.state ?? "missing").toLowerCase()}.`, choose);
    }
    described = await describe(state.model, signal);
    hues = new Map();
    clearAnswer();
    draw(problems);
  } catch (error) {
    if (error.name !== "AbortError") wait(error.message, choose);
  }
}

function wait(message, then) {
  described = null;
  draw();
  fail(message);
  again = setTimeout(then, 2000);
}

function draw(problems = []) {
  const isDefault = (name) => name === "serving_default";
  const order = (a, b) => isDefault(b) - isDefault(a) || (a < b ? -1 : 1);
  const found = Object.keys(described?.signatures ?? {}).filter((name) => described.signatures[name].kind !== "explanation");
  const names = found.filter((name) => name !== "embed" || found.length === 1).sort(order); // It is the default one.
  if (described && !names.includes(state.task[state.model])) state.task[state.model] = names[0];
  byId("task").replaceChildren(...names.map((name) => node("option", { value: name }, taskName(name))));
  byId("task").value = state.task[state.model] ?? "";
  byId("tasks").hidden = names.length < 2;
  const none = described && !names.length ? ["No signature takes text."] : [];
  byId("about").textContent = described ? [`Version ${described.version}`, ...problems, ...none].join(". ") : "";
  byId("model_facts").hidden = !described?.facts.head;
  byId("model_facts").replaceChildren(byId("model_facts").firstElementChild, list(factsOf(described?.facts ?? {})));
  drawFields();
}

function factsOf({ head, labels, options, sequence_length: length, precision, versions, vocabulary, config, lowercase }) {
  if (!head) return {};
  const thresholds = options?.thresholds ?? null;
  const each = labels?.slice(0, 20).map((label, index) => `${label}: ${thresholds?.[index]}`).join(", ");
  const shown = labels?.slice(0, 20).join(", ");
  const { kind, outputs } = described.signatures.serving_default ?? {};
  const special = { regression: "regression", classification: outputs?.includes("predicted") && "multi-label classification" };
  return {
    Head: special[kind] || head.replaceAll("_", " "),
    ...(labels && { Labels: labels.length > 20 ? `${labels.length}: ${shown}, …` : shown }),
    ...(thresholds !== null && { Thresholds: Array.isArray(thresholds) && labels ? each : String(thresholds) }),
    "Sequence length": `${length} tokens`,
    ...(config && { [config.d_model ? "Model" : "Encoder"]: sizeOf(config) }),
    ...(vocabulary && { Vocabulary: `${vocabulary.pieces} tokens, ${lowercase ? "uncased" : "cased"}` }),
    Precision: precision,
    ...(versions && { Versions: Object.entries(versions).map((pair) => pair.join(" ")).join(", ") }),
  };
}

function sizeOf(config) {
  const layers = config.num_hidden_layers ?? `${config.encoder_layers} + ${config.decoder_layers}`;
  return `${layers} layers, width ${config.hidden_size ?? config.d_model}`;
}

function taskName(name) {
  const { kind } = described.signatures[name];
  if (kind === "tagging" && name === "words") return "Find entities in words between spaces";
  if (kind === "embedding" && name.startsWith("embed_")) return `Embed: ${name.slice("embed_".length)}`;
  return KINDS[kind][0] || name;
}

function drawFields() {
  const { kind = null, inputs = {} } = signature() ?? {};
  byId("fields").replaceChildren(...Object.keys(inputs).flatMap((name) => field(kind, name, inputs[name])));
  byId("mask").hidden = kind !== "masking";
  for (const id of ["ask", "example"]) byId(id).disabled = !kind;
  byId("by_hand").hidden = !kind;
  drawTable();
  changed();
}

function field(kind, name, rank) {
  const id = `field_${name}`;
  const other = rank === 2 ? `${name}, one per line` : name;
  const title = kind === "embedding" ? "Texts, one per line" : NAMES[name] ?? other;
  const long = ["context", "choices", "labels"].includes(name) || kind === "embedding";
  const box = node("textarea", { id, name, dir: "auto", rows: long ? 6 : 2, class: long ? "long" : "" });
  box.value = texts()[name] ?? exampleOf(kind, name);
  return [node("label", { for: id }, title), box];
}

// The example stored in the model, or else one for this kind of task.
function exampleOf(kind, name) {
  const own = ["serving_default", "alignment"].includes(signature().name) ? described.facts.example?.[name] : null;
  return (Array.isArray(own) ? own.join("\n") : own) ?? KINDS[kind][1][name] ?? "A sentence.";
}

const texts = () => (state.texts[`${state.model}/${signature().name}`] ??= {});
const boxes = () => [...byId("fields").querySelectorAll("textarea")];

function changed() {
  for (const box of boxes()) texts()[box.name] = box.value;
  keep();
  byId("curl").textContent = signature() ? curl(body(typed())) : "";
  byId("copied").textContent = "";
}

// Whether each line of a field is a text.
const isList = (name) => signature().kind === "embedding" || signature().inputs[name] === 2;

const typed = () => Object.fromEntries(boxes().map((box) => [box.name, box.value]));

// The request body: one row, or one row per line if texts are compared.
function body(given) {
  const { name, kind, inputs } = signature();
  const value = (input) => {
    if (kind === "embedding") return lines(given[input]);
    return [given[input], [given[input]], [lines(given[input])]][inputs[input]];
  };
  const columns = Object.fromEntries(Object.keys(inputs).map((input) => [input, value(input)]));
  return { ...(name === "serving_default" ? {} : { signature_name: name }), inputs: columns };
}

function curl(asked) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const url = new URL(`${pathOf(state.model)}:predict`, location.href).href;
  return `curl -d ${quoted(JSON.stringify(asked))} ${quoted(url)}`;
}

// ---- Requests.

async function ask() {
  const signal = fresh();
  byId("answer").setAttribute("aria-busy", "true");
  byId("facts").textContent = "Waiting for the answer …";
  try {
    const now = await describe(state.model, signal);
    const replaced = now.version !== described.version;
    described = now;
    if (replaced) draw();
    if (!signature()) return fail("The model no longer has a signature that takes text.");
    const given = typed();
    const asked = body(given);
    const fewest = signature().kind === "choice" ? 2 : 1;
    const short = Object.keys(asked.inputs).find((name) => lines(given[name]).length < fewest && isList(name));
    if (short) {
      const title = byId(`field_${short}`).previousSibling.textContent;
      return fail(`Enter at least ${count(fewest, "line")} in “${title}”.`);
    }
    const began = performance.now();
    // Name the version, so that the one displayed is the one that answers even if it is being replaced.
    const { outputs } = await request(`${pathOf(state.model)}/versions/${now.version}:predict`, asked, signal);
    show(given, outputs, performance.now() - began);
  } catch (error) {
    if (error.name !== "AbortError") fail(error.message);
  }
}

function clearAnswer() {
  byId("answer").removeAttribute("aria-busy");
  byId("facts").textContent = "No request sent yet.";
  byId("error").hidden = byId("headline").hidden = true;
  byId("shown").replaceChildren();
}

function fail(message) {
  const told = !byId("error").hidden && byId("error").textContent === message;
  clearAnswer();
  byId("facts").textContent = "";
  byId("error").hidden = false;
  if (!told) byId("error").textContent = message; // An unchanged message must not be read out again.
}

function show(given, outputs, milliseconds) {
  const { kind, outputs: names } = signature();
  // A single output is returned without its name.
  const named = names.length === 1 ? { [names[0]]: outputs } : outputs;
  const rows = (row) => Object.fromEntries(Object.entries(named).map(([name, values]) => [name, values[row]]));
  const [headline, ...parts] = kind === "raw" ? SHOW.raw(outputs) : SHOW[kind](rows(0), given, named);
  clearAnswer();
  const time = milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds);
  const { tokens, tokens_read: read } = tokenCounts(kind === "raw" ? {} : rows(0), given);
  const cut = read < tokens ? `, read ${read} of ${tokens} tokens` : "";
  byId("facts").textContent = `${state.model}, version ${described.version}, ${time} ms${cut}`;
  byId("headline").hidden = false;
  byId("headline").textContent = headline;
  byId("shown").replaceChildren(...parts, ...(kind === "raw" ? [] : strongestWindow(rows(0), given)));
  byId("shown").querySelectorAll(".text").forEach(reveal);
  byId("shown").querySelector("mark")?.scrollIntoView({ block: "nearest" }); // The page, on a small screen.
  const explains = described.signatures.explain?.kind === "explanation" && signature().name === "serving_default";
  if (explains) byId("shown").append(why(given));
  if (kind !== "raw") byId("shown").append(folded("Full response", () => json(outputs)));
}
