"use strict";

// ---- Utilities. Text from the server or the user always becomes text nodes, never markup.

const byId = (id) => document.getElementById(id);

function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(label, press, attributes = {}) {
  const made = node("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", press);
  return made;
}

function percent(share) {
  const value = 100 * share;
  if (Number.isNaN(value)) return "NaN";
  return value > 0 && value < 0.05 ? "< 0.1%" : `${value.toFixed(1)}%`;
}

const decimals = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 4 });
const count = (number, one) => `${number} ${one}${number === 1 ? "" : "s"}`;
const lines = (text) => text.split("\n").filter((line) => line.trim());

// ---- The server.

async function request(path, asked, signal) {
  let response, text;
  try {
    const headers = { "Content-Type": "application/json" };
    const post = asked && { method: "POST", body: JSON.stringify(asked), headers };
    response = await fetch(path, { ...post, signal, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not respond. Is it still running?");
  }
  let answer;
  try {
    answer = parse(text);
  } catch {
    throw new Error(`The server’s response (status ${response.status}) is not JSON.`);
  }
  if (!response.ok) {
    const error = new Error(answer.error || `The server responded with status ${response.status}.`);
    throw Object.assign(error, { status: response.status });
  }
  return answer;
}

// NaN and infinities are unquoted, which JSON.parse rejects; as strings, Number() accepts them.
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    const bare = /"[^"\\]*(?:\\.[^"\\]*)*"|NaN|-?Infinity/g;
    return JSON.parse(text.replace(bare, (found) => (found[0] === '"' ? found : `"${found}"`)));
  }
}

const pathOf = (model) => `v1/models/${encodeURIComponent(model)}`;

// The served version, its signatures with text inputs, and the facts that `keras_bert.export` stores.
async function describe(model, signal) {
  const answer = await request(`${pathOf(model)}/metadata`, null, signal);
  const signatures = {};
  for (const [name, signature] of Object.entries(answer.metadata.signature_def.signature_def)) {
    const ranks = Object.entries(signature.inputs).map(([input, info]) => [input, rankOf(info)]);
    const special = name.startsWith("__saved_model") || /\/(classify|regress)$/.test(signature.method_name);
    if (special || !ranks.length || ranks.some(([, rank]) => rank === null)) continue;
    const inputs = Object.fromEntries(ranks.sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1)));
    const outputs = Object.keys(signature.outputs);
    signatures[name] = { name, inputs, outputs, kind: kindOf(Object.keys(inputs), outputs) };
  }
  const facts = await request(`about/${encodeURIComponent(model)}`, null, signal);
  return { version: answer.model_spec.version, signatures, facts };
}

// 0, 1 or 2 for strings, null for inputs that the form does not support.
function rankOf(info) {
  const shape = info.tensor_shape;
  const rank = shape.unknown_rank ? 1 : shape.dim.length;
  return info.dtype === "DT_STRING" && rank < 3 ? rank : null;
}

// Inputs follow the order of `NAMES`, other inputs come last.
function place(input) {
  const index = Object.keys(NAMES).indexOf(input);
  return index < 0 ? 99 : index;
}

function kindOf(inputs, outputs) {
  const takes = (...names) => names.length === inputs.length && names.every((name) => inputs.includes(name));
  const gives = (...names) => names.every((name) => outputs.includes(name));
  const onTexts = takes("text") || takes("text", "pair");
  if (gives("words", "scores", "baseline", "difference")) return "explanation"; // A button of the answer, no task.
  if (onTexts && gives("labels", "probabilities")) return "classification";
  if (takes("text") && gives("entity_starts", "entity_types", "tokens")) return "tagging";
  if (takes("text") && gives("mask_count", "tokens", "probabilities")) return "masking";
  if (takes("text") && gives("embedding")) return "embedding";
  if (takes("text") && gives("translation", "attention")) return "alignment";
  if (takes("text") && gives("translation", "scores")) return "translation";
  if (takes("text", "pair") && gives("probability")) return "next_sentence";
  if (onTexts && (gives("value") || gives("score"))) return "regression"; // `score` in exports of earlier versions.
  if (takes("question", "context") && gives("answer", "start", "end")) return "answering";
  if (takes("text", "labels") && gives("labels", "probabilities")) return "zero_shot";
  if (takes("text", "choices") && gives("choice", "probabilities")) return "choice";
  return "raw";
}
