// ---- CSV: fields may be quoted (RFC 4180), with commas, semicolons or tabs between them.

const SEPARATORS = { ",": "commas", ";": "semicolons", "\t": "tabs", "": "line breaks only" };

// Returns the first rows of a text, lists of fields; blank lines are skipped. With the separator "", each line is a field.
function parseTable(text, separator, most = Infinity) {
  const rows = [];
  let cells = [];
  let at = 0;
  let begin = 0; // Of the row.
  while (at < text.length && rows.length < most) {
    const [cell, end] = fieldAt(text, at, separator);
    cells.push(cell);
    at = end + 1;
    if (text[end] === separator) continue;
    if (text[end] === "\r" && text[at] === "\n") at += 1;
    if (cells.length > 1 || text.slice(begin, end).trim()) rows.push(cells);
    begin = at;
    cells = [];
  }
  if (cells.length) rows.push([...cells, ""]);
  return rows;
}

// Returns a field and the place after it.
function fieldAt(text, at, separator) {
  const plain = plainEnd(text, at, separator);
  if (!separator || text[at] !== '"') return [text.slice(at, plain), plain];
  let from = at + 1;
  for (;;) {
    const quote = text.indexOf('"', from);
    // Not closed, or followed by other characters: the quotes are part of the text.
    if (quote < 0) return [text.slice(at, plain), plain];
    if (text[quote + 1] === '"') from = quote + 2;
    else if (quote + 1 === plainEnd(text, quote + 1, separator)) {
      return [text.slice(at + 1, quote).replaceAll('""', '"'), quote + 1];
    } else return [text.slice(at, plain), plain];
  }
}

function plainEnd(text, at, separator) {
  const end = new RegExp(`[${separator}\r\n]`, "g");
  end.lastIndex = at;
  return end.exec(text)?.index ?? text.length;
}

// Returns the separator with which most of the first rows have the same number of fields, the highest; "" for a list of
// texts, even if they contain commas.
function separatorOf(text) {
  let most = { width: 1, separator: "" };
  for (const separator of ["\t", ";", ","]) {
    const rows = parseTable(text, separator, 50);
    const width = rows[0]?.length ?? 0;
    const alike = rows.filter((row) => row.length === width).length;
    if (width > most.width && alike > 0.6 * rows.length) most = { width, separator };
  }
  // A single column with quotes.
  if (most.width === 1 && text.includes('"') && parseTable(text, ",").every((row) => row.length === 1)) return ",";
  return most.separator;
}

// An apostrophe precedes a text that spreadsheets would take for a formula, as in `errors.tsv`.
function asText(cell) {
  const isFormula = /^[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^['\t\r\n]/.test(cell);
  return isFormula && !/^[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$/.test(cell) ? `'${cell}` : cell;
}

function csvLine(cells, separator) {
  const special = new RegExp(`["\r\n${separator}]`);
  return cells.map((cell) => (special.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(separator);
}
