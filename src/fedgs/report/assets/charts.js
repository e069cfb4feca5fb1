// The charts that Plotly draws. Each reads the state and redraws itself.
const OPTIONS = { responsive: true, displayModeBar: false, displaylogo: false };

// Colours of the page, light or dark, as the style sheet has them.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
function luminance(rgb) {
  const [r, g, b] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// A colour that is seen on a dark page: mixed with white until its contrast is at least 3.5.
function tone(colour) {
  if (!dark.matches) return colour;
  let rgb = channels(colour);
  const page = luminance(channels(shade("page")));
  while ((luminance(rgb) + 0.05) / (page + 0.05) < 3.5) rgb = rgb.map((value) => value + Math.ceil((255 - value) * 0.1));
  return "#" + rgb.map((value) => Math.min(255, value).toString(16).padStart(2, "0")).join("");
}
const colourOf = (label) => tone(DATA.methods[label].colour);

// Widths of lines: of equal ones, the first is the widest, so that those drawn on it do not hide it.
function lineWidths(curves) {
  const texts = curves.map((curve) => JSON.stringify(curve));
  return texts.map((text, i) => 2 + 3 * texts.slice(i + 1).filter((other) => other === text).length);
}

function layout(extra) {
  const axis = { automargin: true, gridcolor: shade("grid"), zeroline: false, linecolor: shade("edge"), fixedrange: false };
  return Object.assign({
    margin: { l: 48, r: 12, t: 12, b: 44 }, font: { family: "inherit", size: 13, color: shade("ink") }, showlegend: false,
    paper_bgcolor: shade("page"), plot_bgcolor: shade("page"), hovermode: "closest", dragmode: false, hoverlabel: { align: "left", bgcolor: shade("soft"), bordercolor: shade("edge"), font: { color: shade("ink") } },
  }, extra, { xaxis: Object.assign({}, axis, extra.xaxis), yaxis: Object.assign({}, axis, extra.yaxis) });
}

const NAMED = 40; // clients that are named on an axis, where there are no more

// Ticks at whole numbers: plotly puts them at halves where the range is short.
function whole(most) {
  return most <= 10 ? { tickmode: "linear", tick0: 0, dtick: 1 } : {};
}

// Ticks with the clients' names, in the order of the axis; whole numbers where there are too many.
// `room` is the least number of pixels for a name on an axis across the page.
function named(names, room = 0) {
  if (names.length * room > document.documentElement.clientWidth) return whole(names.length);
  const short = (name) => (String(name).length > 24 ? `${String(name).slice(0, 23)}…` : String(name));
  return names.length <= NAMED ? { tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names.map((name) => escaped(short(name))) } : whole(names.length);
}

function draw(id, traces, extra, words) {
  const target = byId(id);
  target.setAttribute("role", "img");
  target.setAttribute("aria-label", words);
  return Plotly.react(target, traces, layout(extra), OPTIONS);
}

function line(label, x, y, extra = {}, width = 2) {
  const look = DATA.methods[label];
  return Object.assign({
    type: "scatter", mode: x.length === 1 ? "markers" : "lines", name: label, x, y, line: { color: tone(look.colour), dash: look.dash, width },
    hovertemplate: `${escaped(label)}<br>round %{x}: %{y:.4g}<extra></extra>`,
  }, extra);
}

function escaped(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function band(label, curve) {
  const top = curve.mean.map((mean, i) => mean + curve.spread[i]);
  const bottom = curve.mean.map((mean, i) => mean - curve.spread[i]);
  return {
    type: "scatter", mode: "lines", x: curve.rounds.concat([...curve.rounds].reverse()), y: top.concat(bottom.reverse()), fill: "toself",
    fillcolor: colourOf(label) + "2e", line: { width: 0 }, hoverinfo: "skip", name: label,
  };
}

const METRIC_NAMES = { test_loss: "test loss", valid_loss: "validation loss", test_accuracy: "test accuracy" };
const metricName = (metric) => METRIC_NAMES[metric] || metric.replace("test_", "test ").replace("valid_", "validation ");

function drawLoss() {
  const group = DATA.groups[state.group], timed = byId("over").value === "hours" && Boolean(group.by_hours);
  const curves = (timed ? group.by_hours : group.curves)[state.metric] || {};
  const unit = timed ? "hour" : "round";
  byId("over-label").hidden = !group.by_hours;
  const labels = Object.keys(curves).filter((label) => !state.hidden.has(label));
  const traces = [];
  const shown = (label) => (curves[label].failed ? `${label} (failed)` : label);
  for (const label of labels) if (curves[label].seeds > 1) traces.push(band(label, curves[label]));
  const widths = lineWidths(labels.map((label) => [curves[label].rounds, curves[label].mean]));
  labels.forEach((label, i) => traces.push(line(label, curves[label].rounds, curves[label].mean, { name: shown(label), hovertemplate: `${escaped(shown(label))}<br>${unit} %{x}: %{y:.4g}<extra></extra>` }, widths[i])));
  const log = byId("logarithmic").checked;
  const yaxis = { title: { text: metricName(state.metric) }, type: log ? "log" : "linear" };
  if (!log && !byId("whole").checked && state.metric.endsWith("_loss")) yaxis.range = lossRange(labels.map((label) => curves[label]));
  const ends = labels.map((label) => `${shown(label)} ${curves[label].mean[curves[label].mean.length - 1]}`);
  const ticks = timed ? {} : whole(Math.max(0, ...labels.map((label) => curves[label].rounds[curves[label].rounds.length - 1])));
  return draw("loss-chart", traces, { xaxis: { title: { text: timed ? "hours" : "round" }, ...ticks }, yaxis },
    `${metricName(state.metric)} over ${timed ? "hours" : "rounds"}; at the end: ${ends.join(", ")}`);
}

// The first, steep quarter of the rounds is left out of the range, so that methods can be told apart, unless asked for.
// Later bands are whole; methods that failed do not count beside others.
function lossRange(curves) {
  const good = curves.filter((curve) => !curve.failed), counted = good.length ? good : curves;
  const begin = Math.max(...counted.map((curve) => curve.rounds[curve.rounds.length - 1])) / 4;
  const values = counted.flatMap((curve) => curve.rounds.flatMap((t, i) => (t < begin ? [] : [curve.mean[i] - curve.spread[i], curve.mean[i] + curve.spread[i]])));
  if (!values.length) return undefined;
  const low = Math.min(...values), high = Math.max(...values);
  const room = 0.08 * (high - low) || 0.1 * Math.abs(high) || 0.1;
  return [low - room, high + room];
}

// Why a run has no map, in words.
function withoutMap(run) {
  if (!run) return "No run.";
  if (run.shares) return "The clients of this run are shown as tenths, and their graph is not drawn.";
  return "This run has no map here: its clients are not known, or the page would be too large.";
}

function drawMap() {
  const run = lookedAt(), map = mapOf(run), note = byId("map-note");
  byId("map-chart").hidden = !map && !(run && run.shares);
  if (run && run.shares) return drawShares(run, note);
  if (!map) {
    note.textContent = withoutMap(run);
    return null;
  }
  const federation = DATA.federations[run.federation];
  const keys = { size: federation.sizes, activity: run.activity, count: run.counts };
  const order = descending(keys[byId("map-order").value]);
  const rows = Math.min(map.clients, 125), columns = Math.min(map.rounds, 200);
  const show = byId("map-show").value, size = rows * columns;
  const there = new Float64Array(size), chosen = new Float64Array(size), cells = new Float64Array(size), rowOf = new Int32Array(map.clients);
  order.forEach((k, place) => { rowOf[k] = Math.floor(place * rows / map.clients) * columns; });
  for (let t = 0; t < map.rounds; t++) {
    const column = Math.floor(t * columns / map.rounds);
    for (let k = 0; k < map.clients; k++) {
      const cell = rowOf[k] + column;
      there[cell] += map.available(t, k);
      chosen[cell] += map.selected(t, k);
      cells[cell] += 1;
    }
  }
  const grid = (value) => Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => value(row * columns + column)));
  const y = Array.from({ length: rows }, (_, row) => Math.round(row * map.clients / rows));
  const x = Array.from({ length: columns }, (_, column) => Math.round(column * map.rounds / columns) * map.stride);
  const perCell = [Math.ceil(map.clients / rows), Math.ceil(map.rounds / columns) * map.stride];
  const single = perCell[0] === 1 && perCell[1] === 1;
  const names = single ? order.map((k) => String(federation.names[k])) : y.map((place) => `clients from place ${place}`);
  const traces = mapTraces({ x, y, names, available: grid((cell) => there[cell] / cells[cell]), selected: grid((cell) => chosen[cell] / cells[cell]) }, run.label, ".0%");
  note.textContent = `${run.label}, seed ${run.seed}: ${MEANING[show]}` + (single ? "." : `; the darker, the larger the share in a cell of up to ${plural(perCell[0], "client")} and ${plural(perCell[1], "round")}.`);
  return draw("map-chart", traces, { xaxis: { title: { text: "round" }, ...whole(map.rounds * map.stride) }, yaxis: { title: { text: "clients", standoff: 10 }, autorange: "reversed", ...(rows === map.clients ? named(order.map((k) => federation.names[k])) : {}) } }, note.textContent);
}

const MEANING = { both: "blank: not available, grey: available, colour: selected", available: "grey: available", selected: "colour: selected" };

// Heat maps of shares that are available and selected: a row for each of `y`, a column for each of `x`.
function mapTraces({ x, y, names, available, selected }, label, digits) {
  const show = byId("map-show").value, colour = colourOf(label);
  const common = { type: "heatmap", x, y, zmin: 0, showscale: false, customdata: names.map((name) => Array(x.length).fill(escaped(name))) };
  const traces = [];
  if (show !== "selected") traces.push(Object.assign({}, common, {
    name: "available", z: available, zmax: 1, colorscale: [[0, shade("page")], [1, shade(show === "both" ? "there" : "unknown")]],
    hovertemplate: "%{customdata}<br>round %{x}: available %{z:.0%}<extra></extra>",
  }));
  if (show !== "available") traces.push(Object.assign({}, common, {
    name: "selected", z: selected, zmax: Math.max(0, ...selected.flat().filter((share) => !Number.isNaN(share))) || 1, colorscale: [[0, transparent(colour)], [1, colour]], text: available.map((row) => row.map(percent)),
    hovertemplate: `%{customdata}<br>round %{x}: selected %{z:${digits}}, available %{text}<extra></extra>`,
  }));
  return traces;
}

// Very many clients: a row for each tenth of them by data size.
function drawShares(run, note) {
  const { stride, available, selected } = run.shares, federation = DATA.federations[run.federation];
  const keys = { size: federation.sizes, activity: run.activity, count: run.counts };
  const order = descending(keys[byId("map-order").value]), columns = available[0].length;
  const x = Array.from({ length: columns }, (_, column) => column * stride), y = order.map((_, place) => place);
  const traces = mapTraces({ x, y, names: order.map((k) => federation.names[k]), available: order.map((k) => available[k]), selected: order.map((k) => selected[k]) }, run.label, ".2~%");
  note.textContent = `${run.label}, seed ${run.seed}: ${MEANING[byId("map-show").value]}; a row is a tenth of the clients by data size, and the darker, the larger the share of it.`;
  return draw("map-chart", traces, { xaxis: { title: { text: "round" }, ...whole(columns * stride) }, yaxis: { title: { text: "tenths of the clients", standoff: 10 }, autorange: "reversed", ...whole(order.length) } }, note.textContent);
}

function transparent(colour) {
  return `rgba(${channels(colour).join(",")},0)`;
}

function drawCounts() {
  const traces = [], tenths = shownRuns().some((run) => run.shares);
  byId("counts-note").textContent = tenths ? "Each dot is the mean of a tenth of the clients by data size." : "Each dot is a client, larger where several fall together.";
  for (const run of shownRuns().filter((one) => one.counts)) {
    const places = new Map(), names = DATA.federations[run.federation].names;
    const most = Math.max(1, ...run.counts), steps = run.counts.length > 200 ? 30 : 100;
    run.counts.forEach((count, k) => {
      if (run.activity[k] === null) return;
      const x = Math.round(run.activity[k] * steps) / steps, y = most > steps ? Math.round(count / most * steps) / steps * most : count;
      const key = `${x},${y}`;
      const place = places.get(key) || { x, y, names: [] };
      place.names.push(names[k]);
      places.set(key, place);
    });
    const dots = [...places.values()];
    traces.push({
      type: "scatter", mode: "markers", name: run.label, x: dots.map((dot) => dot.x), y: dots.map((dot) => dot.y), text: dots.map((dot) => plural(dot.names.length, "client") + (dot.names.length <= 6 ? `: ${dot.names.map(escaped).join(", ")}` : "")),
      marker: { color: colourOf(run.label), size: dots.map((dot) => Math.min(22, 5 + 2 * Math.sqrt(dot.names.length))), opacity: 0.65, line: { width: 0 } },
      hovertemplate: `${escaped(run.label)}: %{text}<br>available in %{x:.0%} of the rounds<br>selected in %{y${tenths ? ":.3~g" : ":.0f"}}<extra></extra>`,
    });
  }
  return draw("counts-chart", traces, { xaxis: { title: { text: "share of rounds available" }, tickformat: ".0%", range: [-0.03, 1.03] }, yaxis: { title: { text: "rounds selected" }, rangemode: "tozero", ...(tenths ? {} : whole(Math.max(0, ...traces.flatMap((trace) => trace.y)))) } },
    `Rounds selected against share of rounds available, seed ${state.seed}: ${traces.map((trace) => trace.name).join(", ")}`);
}

// The last model that was evaluated by client, on each client's own examples, for the seed chosen above.
function drawByClient() {
  const runs = shownRuns().filter((run) => run.by_client), none = !runsOfGroup().some((run) => run.by_client);
  byId("by-client").hidden = byId("by-client-link").hidden = none;
  if (none) return null;
  const rated = runs.some((run) => run.by_client.accuracy), figure = byId("client-figure");
  figure.querySelector("[value=accuracy]").disabled = !rated;
  if (!rated) figure.value = "loss";
  const what = figure.value, axis = byId("client-axis"), title = axis.selectedOptions[0].textContent;
  const places = (run) => ({ size: DATA.federations[run.federation].sizes, activity: run.activity, count: run.counts })[axis.value];
  const traces = runs.filter((run) => run.by_client[what]).map((run) => ({
    type: "scatter", mode: "markers", name: run.label, x: places(run), y: run.by_client[what], text: DATA.federations[run.federation].names.map(escaped),
    marker: { color: colourOf(run.label), size: 7, opacity: 0.65, line: { width: 0 } },
    hovertemplate: `${escaped(run.label)}: client %{text}<br>${title} %{x}<br>${what} %{y:.4g}<extra></extra>`,
  }));
  byId("by-client-note").textContent = runs.map((run) => `${run.label}: round ${run.by_client.round}, ${run.by_client.part} examples of each client`).join("; ") || "No run of this seed was evaluated by client.";
  const rows = runs.flatMap((run) => descending(run.by_client.loss.map((loss) => (loss === null ? -Infinity : loss))).slice(0, 5).filter((k) => run.by_client.loss[k] !== null).map((k) => [
    run.label, String(DATA.federations[run.federation].names[k]), run.by_client.loss[k].toPrecision(4), run.by_client.accuracy ? percent(run.by_client.accuracy[k]) : "–",
    String(DATA.federations[run.federation].sizes[k]), run.activity[k] === null ? "–" : percent(run.activity[k]), String(run.counts[k])]));
  fillTable(byId("by-client-table"), ["method", "clients with the highest loss", "loss", "accuracy", "training examples", "available", "rounds selected"], rows);
  return draw("by-client-chart", traces, { xaxis: { title: { text: title }, tickformat: axis.value === "activity" ? ".0%" : "" }, yaxis: { title: { text: `${what} of the client` } } },
    `${what} of each client against ${title}, seed ${state.seed}: ${runs.map((run) => run.label).join(", ")}`);
}

function drawPartition() {
  const run = lookedAt(), federation = run && run.federation !== undefined ? DATA.federations[run.federation] : null;
  const chart = byId("partition-chart"), note = byId("partition-note");
  chart.hidden = !federation;
  if (!federation) { note.textContent = "The clients of this run are not known."; return null; }
  const order = descending(federation.sizes), bars = Math.min(order.length, 120);
  const labels = federation.labels || federation.sizes.map((size) => [size]);
  const sums = Array.from({ length: bars }, () => new Array(labels[0].length).fill(0)), held = new Array(bars).fill(0);
  order.forEach((k, place) => {
    const bar = Math.floor(place * bars / order.length);
    labels[k].forEach((count, label) => { sums[bar][label] += count; });
    held[bar] += 1;
  });
  const shares = byId("shares").checked;
  const totals = sums.map((row) => row.reduce((a, b) => a + b, 0));
  const traces = labels[0].map((_, label) => ({
    type: "bar", name: federation.labels ? `label ${label}` : "examples", x: sums.map((_, bar) => bar), marker: { color: federation.colours[label] ? tone(federation.colours[label]) : shade("unknown"), line: { width: 0 } },
    y: sums.map((row, bar) => shares ? row[label] / Math.max(1, totals[bar]) : row[label] / held[bar]),
    customdata: sums.map((_, bar) => bars === order.length ? escaped(federation.names[order[bar]]) : `clients from place ${Math.round(bar * order.length / bars)}`),
    hovertemplate: `%{customdata}<br>${federation.labels ? `label ${label}` : "examples"}: %{y:${shares ? ".0%" : ",.0f"}}<extra></extra>`,
  }));
  const per = Math.ceil(order.length / bars);
  note.textContent = `${plural(federation.total, "client")}, ${plural(federation.examples || federation.sizes.reduce((a, b) => a + b, 0), "training example")}` +
    (federation.examples ? "; a bar is the mean of a tenth of the clients" : federation.total > order.length ? ` among the ${order.length} shown` : "") + `, ${federation.labels ? plural(labels[0].length, "label") : "labels not known"}` + (per > 1 ? `; a bar is the mean of up to ${per} clients.` : ".");
  return draw("partition-chart", traces, { barmode: "stack", bargap: 0, xaxis: { title: { text: "clients, most data first" }, ...(bars === order.length ? named(order.map((k) => federation.names[k]), 20) : {}) }, yaxis: { title: { text: shares ? "share" : "training examples" }, tickformat: shares ? ".0%" : "" } }, note.textContent);
}

function drawCourse() {
  const runs = shownRuns().filter((run) => run.variance && run.variance.length);
  const rounds = { title: { text: "round" }, ...whole(Math.max(0, ...runs.map((run) => run.done))) };
  const words = (what) => `${what} over rounds, seed ${state.seed}: ${runs.map((run) => run.label).join(", ")}`;
  const log = byId("variance-logarithmic").checked, widths = lineWidths(runs.map((run) => [run.at, run.variance]));
  const variance = { title: { text: "count variance" }, type: log ? "log" : "linear", rangemode: log ? "normal" : "tozero" };
  draw("variance-chart", runs.map((run, i) => line(run.label, run.at, run.variance, {}, widths[i])), { xaxis: rounds, yaxis: variance }, words("Count variance"));
  const diverse = runs.filter((run) => run.diversity);
  byId("diversity-chart").hidden = !diverse.length;
  byId("diversity-note").textContent = diverse.length ? "" : "No run here kept distances between clients, so cohorts have no diversity to show.";
  if (diverse.length) draw("diversity-chart", diverse.map((run) => line(run.label, run.diversity_at, run.diversity)), { xaxis: rounds, yaxis: { title: { text: "cohort diversity" } } }, words("Cohort diversity"));
}

function fillTable(table, head, rows) {
  const top = element("tr"), thead = element("thead"), tbody = element("tbody");
  head.forEach((text) => top.append(element("th", { scope: "col" }, text)));
  thead.append(top);
  tbody.append(...rows.map((cells) => { const tr = element("tr"); cells.forEach((text, i) => tr.append(element(i ? "td" : "th", i ? {} : { scope: "row" }, text))); return tr; }));
  table.replaceChildren(thead, tbody);
}

function drawSolver() {
  const runs = shownRuns();
  const head = ["method", "how selections were found", "largest gap to the bound", "rounds", "rounds without a cohort", "state"];
  const told = (run, without) => Object.entries(run.statuses).filter(([status]) => ["skipped", "empty"].includes(status) === without).map(([status, count]) => `${status} ${count}`).join(", ");
  const rows = runs.map((run) => [run.label,
    told(run, false) || "no solver",
    run.gap === null ? "–" : `${(100 * run.gap).toPrecision(2)} %`, `${run.done} of ${run.rounds}`, told(run, true) || "–", run.failure ? `failed in ${run.failure}` : run.stopped ? `stopped: ${run.stopped}` : run.state]);
  fillTable(byId("solver-table"), head, rows);
  const phases = unique(runs.flatMap((run) => Object.keys(run.seconds)));
  const tones = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#999999"];
  const traces = phases.map((phase, i) => ({
    type: "bar", orientation: "h", name: phase, y: runs.map((run) => run.label), x: runs.map((run) => run.seconds[phase] || 0), marker: { color: tone(tones[i % tones.length]) },
    hovertemplate: `${escaped(phase)}: %{x:.3g} ms a round<extra></extra>`,
  }));
  byId("time-chart").hidden = !phases.length;
  if (phases.length) draw("time-chart", traces, { barmode: "stack", showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 48, r: 12, t: 30, b: 44 }, xaxis: { title: { text: "milliseconds a round, median" } }, yaxis: { autorange: "reversed" } },
    `Median milliseconds a round by phase: ${phases.join(", ")}`);
}

// What went wrong in deployments: how often, and the last events one by one.
function drawEvents() {
  const runs = shownRuns().filter((run) => run.events.last.length), none = !runsOfGroup().some((run) => run.events.last.length);
  byId("events").hidden = byId("events-link").hidden = none;
  const total = (run) => Object.values(run.events.counts).reduce((a, b) => a + b, 0);
  byId("events-note").textContent = runs.map((run) => {
    const kinds = Object.entries(run.events.counts).map(([kind, count]) => `${count} ${kind.replace("_", " ")}`).join(", ");
    const part = total(run) > run.events.last.length ? ` (the last ${run.events.last.length} are listed)` : "";
    return `${run.label}: ${kinds}${part}`;
  }).join("; ") || "No events for this seed.";
  const cells = runs.flatMap((run) => run.events.last.map((event) => [run.label, ...event]));
  fillTable(byId("events-table"), ["method", "round", "client", "event", "detail"], cells);
}
