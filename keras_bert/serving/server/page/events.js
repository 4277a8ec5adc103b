// ---- Events.

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (signature()) ask();
});
byId("form").addEventListener("input", changed);
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && signature()) {
    event.preventDefault();
    ask();
  }
});
byId("model").addEventListener("change", () => {
  state.model = byId("model").value;
  described = null;
  clearAnswer();
  draw();
  choose();
});
byId("task").addEventListener("change", () => {
  fresh();
  state.task[state.model] = byId("task").value;
  clearAnswer();
  drawFields();
});
byId("example").addEventListener("click", () => {
  for (const box of boxes()) box.value = exampleOf(signature().kind, box.name);
  changed();
});
byId("mask").addEventListener("click", () => {
  const box = byId("field_text");
  box.setRangeText("[MASK]", box.selectionStart, box.selectionEnd, "end");
  box.focus();
  changed();
});
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("curl").textContent);
  } catch {
    // Browsers provide no clipboard API to plain-HTTP pages of other hosts.
    getSelection().selectAllChildren(byId("curl"));
    document.execCommand("copy");
  }
  byId("copied").textContent = "Copied.";
});

start();
