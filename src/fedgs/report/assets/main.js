// Controls, and the order in which things are drawn.
const whenIdle = window.requestIdleCallback ? (act) => requestIdleCallback(act, { timeout: 400 }) : (act) => setTimeout(act, 0);
let drawing = 0;

// Top to bottom, each when the browser has time for it: the page can be read and used meanwhile.
function drawAll() {
  const charts = [drawLoss, drawMap, drawCounts, drawNetwork, drawByClient, drawPartition, drawCourse, drawSolver, drawEvents, markCutTables], mine = ++drawing;
  const next = () => {
    if (mine !== drawing) return;
    const chart = charts.shift();
    if (chart) { chart(); whenIdle(next); } else document.body.dataset.drawn = "yes";
  };
  delete document.body.dataset.drawn;
  next();
}

function summarise() {
  const count = (kind) => DATA.runs.filter((run) => run.state === kind).length;
  const parts = ["finished", "unfinished", "failed"].filter(count).map((kind) => `${count(kind)} ${kind}`);
  byId("summary").textContent = `${plural(DATA.runs.length, "run")}: ${parts.join(", ")}; ${plural(unique(DATA.runs.map((run) => run.label)).length, "method")}, ${DATA.groups.length === 1 ? "one pair" : DATA.groups.length + " pairs"} of data and availability.`;
  const problems = byId("problems");
  problems.hidden = !DATA.problems.length;
  problems.querySelector("summary").textContent = `${plural(DATA.problems.length, "thing")} could not be read`;
  problems.querySelector("ul").replaceChildren(...DATA.problems.map((problem) => element("li", {}, problem)));
  paintSwatches();
}

function paintSwatches() {
  document.querySelectorAll(".swatch[data-label]").forEach((swatch) => { if (DATA.methods[swatch.dataset.label]) swatch.style.background = colourOf(swatch.dataset.label); });
}

// Tables that are cut off on the right say so.
function markCutTables() {
  document.querySelectorAll(".wide").forEach((part) => {
    const cut = part.scrollWidth > part.clientWidth + 1;
    part.classList.toggle("cut", cut);
    part.previousElementSibling.hidden = !cut;
  });
}

function chooseGroup(group) {
  state.group = group;
  const seeds = unique(runsOfGroup().map((run) => run.seed)).sort((a, b) => a - b);
  if (!seeds.includes(state.seed)) state.seed = seeds[0];
  fillSelect(byId("seed"), seeds.map((seed) => [seed, String(seed)]), state.seed);
  const labels = labelsOfGroup();
  if (!labels.includes(state.method)) state.method = labels.includes("fedgs") ? "fedgs" : labels[0];
  document.querySelectorAll("select.method").forEach((select) => fillSelect(select, labels.map((label) => [label, label]), state.method));
  byId("methods").replaceChildren(...labels.map(methodToggle));
  const metrics = Object.keys(DATA.groups[group].curves);
  if (metrics.length && !metrics.includes(state.metric)) state.metric = metrics[0];
  fillSelect(byId("metric"), metrics.map((metric) => [metric, metricName(metric)]), state.metric);
  document.querySelectorAll(".result").forEach((part) => { part.hidden = part.dataset.group !== "all" && Number(part.dataset.group) !== group; });
  const runs = runsOfGroup();
  fillSelect(byId("run"), runs.map((run) => [DATA.runs.indexOf(run), `${run.label}, seed ${run.seed}`]), DATA.runs.indexOf(runs[0]));
  showConfig();
}

function methodToggle(label) {
  const entry = element("label"), box = element("input", { type: "checkbox", value: label }), swatch = element("span", { class: "swatch", "data-label": label });
  swatch.style.background = colourOf(label);
  box.checked = !state.hidden.has(label);
  box.addEventListener("change", () => {
    if (box.checked) state.hidden.delete(label); else state.hidden.add(label);
    drawLoss(); drawCounts(); drawByClient(); drawCourse(); drawSolver(); drawEvents();
  });
  entry.append(box, " ", swatch, label);
  return entry;
}

function showConfig() {
  const run = DATA.runs[Number(byId("run").value)];
  byId("config").textContent = run ? run.config : "";
}

function chooseMethod(label) {
  play(false);
  state.method = label;
  document.querySelectorAll("select.method").forEach((select) => { select.value = label; });
  drawMap(); drawNetwork(); drawPartition();
}

function listen() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  on("group", "change", (event) => { play(false); chooseGroup(Number(event.target.value)); drawAll(); });
  on("seed", "change", (event) => { play(false); state.seed = Number(event.target.value); drawMap(); drawCounts(); drawNetwork(); drawByClient(); drawCourse(); drawSolver(); drawEvents(); });
  on("metric", "change", (event) => { state.metric = event.target.value; drawLoss(); });
  on("over", "change", drawLoss);
  on("logarithmic", "change", drawLoss);
  on("whole", "change", drawLoss);
  on("variance-logarithmic", "change", drawCourse);
  on("map-show", "change", drawMap);
  on("map-order", "change", drawMap);
  on("shares", "change", drawPartition);
  on("client-figure", "change", drawByClient);
  on("client-axis", "change", drawByClient);
  on("run", "change", showConfig);
  on("round", "input", (event) => { play(false); state.round = Number(event.target.value); showRound(); });
  on("play", "click", () => play(playing === null));
  on("client", "change", (event) => lookAtClient(event.target.value === "" ? null : Number(event.target.value)));
  document.querySelectorAll("select.method").forEach((select) => select.addEventListener("change", () => chooseMethod(select.value)));
  window.addEventListener("resize", markCutTables);
  dark.addEventListener("change", () => { paintSwatches(); drawAll(); });
  const point = (event) => { const client = event.target.closest && event.target.closest(".client"); if (client) lookAtClient(Number(client.dataset.client)); };
  on("drawing", "pointerover", point);
  on("drawing", "click", point);
}

summarise();
fillSelect(byId("group"), DATA.groups.map((group, i) => [i, group.title]), 0);
chooseGroup(0);
listen();
drawAll();
