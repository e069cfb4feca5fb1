// The client graph: clients as pies, a round slider, details of the client that is pointed at or chosen.
const SVG = "http://www.w3.org/2000/svg";
let drawn = null; // { key, clients: [element] }

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function slice(radius, from, to) {
  const point = (share) => `${(radius * Math.sin(2 * Math.PI * share)).toFixed(2)} ${(-radius * Math.cos(2 * Math.PI * share)).toFixed(2)}`;
  return `M0 0L${point(from)}A${radius} ${radius} 0 ${to - from > 0.5 ? 1 : 0} 1 ${point(to)}Z`;
}

function pie(radius, counts, colours) {
  const group = svg("g", { class: "pie" });
  const total = counts.reduce((a, b) => a + b, 0);
  let from = 0;
  counts.forEach((count, label) => {
    if (!count) return;
    const to = from + count / total;
    group.append(count === total ? svg("circle", { r: radius, fill: tone(colours[label]) }) : svg("path", { d: slice(radius, from, to), fill: tone(colours[label]) }));
    from = to;
  });
  return group;
}

// A short name under a pie, where few clients leave room for it.
function nameBelow(name, radius) {
  const text = svg("text", { class: "name", y: (radius + 2.6).toFixed(2), "text-anchor": "middle" });
  text.textContent = String(name).length > 16 ? `${String(name).slice(0, 15)}…` : String(name);
  return text;
}

// Where no distances were kept, clients stand in rows, most data first.
function rowsBySize(federation) {
  const side = Math.ceil(Math.sqrt(federation.names.length)), positions = [];
  descending(federation.sizes).forEach((k, place) => { positions[k] = [(place % side + 0.5) / side, (Math.floor(place / side) + 0.5) / side]; });
  return positions;
}

function buildNetwork(run) {
  const key = `${run.federation}/${run.network}/${dark.matches}`;
  if (drawn && drawn.key === key) return;
  const federation = DATA.federations[run.federation], network = DATA.networks[run.network];
  const positions = network ? network.positions : rowsBySize(federation);
  const count = positions.length, radius = Math.min(3, 26 / Math.sqrt(count));
  const root = svg("svg", { viewBox: "0 0 100 100", role: "img", "aria-label": "Client graph; the text above and below says what it shows" });
  if (network) {
    let path = "";
    for (let e = 0; e < network.edges.length; e += 2) {
      const [a, b] = [positions[network.edges[e]], positions[network.edges[e + 1]]];
      path += `M${(100 * a[0]).toFixed(1)} ${(100 * a[1]).toFixed(1)}L${(100 * b[0]).toFixed(1)} ${(100 * b[1]).toFixed(1)}`;
    }
    const faint = Math.min(0.9, Math.max(0.2, 100 / (network.edges.length || 1)));
    root.append(svg("path", { class: "edges", d: path, opacity: faint }));
  }
  const clients = positions.map(([x, y], k) => {
    const group = svg("g", { class: "client", "data-client": k, transform: `translate(${(100 * x).toFixed(2)} ${(100 * y).toFixed(2)})` });
    const counts = federation.labels ? federation.labels[k] : [1];
    group.append(pie(radius, counts, federation.labels ? federation.colours : ["#5d7183"]), svg("circle", { class: "ring", r: (radius + 0.4).toFixed(2) }));
    if (count <= 20) group.append(nameBelow(federation.names[k], radius));
    return group;
  });
  root.append(...clients);
  byId("drawing").replaceChildren(root);
  byId("network-note").textContent = network ? `Near clients have similar data; ${network.caption}.` : "No run here kept distances between clients; they stand in rows, most data first.";
  byId("label-key").replaceChildren(...(federation.labels && federation.colours.length <= 20 ? federation.colours : []).map((colour, label) => {
    const entry = element("span", {}, `label ${label}`), swatch = element("span", { class: "swatch" });
    swatch.style.background = tone(colour);
    entry.prepend(swatch);
    return entry;
  }));
  fillSelect(byId("client"), [["", "point at one, or choose"], ...federation.names.map((name, k) => [k, String(name)])], "");
  state.client = null;
  drawn = { key, clients };
}

function drawNetwork() {
  const run = lookedAt(), map = mapOf(run), slider = byId("round");
  byId("drawing").hidden = slider.disabled = byId("play").disabled = byId("client").disabled = !map;
  if (!map) { byId("round-note").textContent = withoutMap(run); return; }
  buildNetwork(run);
  slider.max = Math.max(0, map.rounds - 1);
  state.round = Math.min(state.round, Number(slider.max));
  slider.value = state.round;
  showRound();
}

function showRound() {
  const run = lookedAt(), map = mapOf(run);
  if (!map || !drawn) return;
  const federation = DATA.federations[run.federation], t = state.round, chosen = [];
  let there = 0;
  drawn.clients.forEach((group, k) => {
    const isThere = t < map.rounds && map.available(t, k), isChosen = t < map.rounds && map.selected(t, k);
    group.classList.toggle("there", Boolean(isThere));
    group.classList.toggle("chosen", Boolean(isChosen));
    group.classList.toggle("looked-at", k === state.client);
    there += isThere;
    if (isChosen) chosen.push(federation.names[k]);
  });
  const round = t * map.stride, listed = chosen.slice(0, 12).join(", ") + (chosen.length > 12 ? ` and ${chosen.length - 12} more` : "");
  byId("round-value").textContent = `${round} of ${Math.max(0, run.done - 1)}`;
  byId("round").setAttribute("aria-valuetext", `round ${round}`);
  byId("round-note").textContent = `Round ${round}: ${there} available (full colour), ${chosen.length ? `${chosen.length} selected (ring): ${listed}` : "none selected"}.`;
  showClient(run, map, federation);
}

function showClient(run, map, federation) {
  const k = state.client, note = byId("client-note");
  if (k === null) { note.textContent = "Point at a client, or choose one above, for its details."; return; }
  let so = 0;
  for (let t = 0; t <= state.round && t < map.rounds; t++) so += map.selected(t, k);
  const held = federation.labels ? federation.labels[k].map((count, label) => [label, count]).filter(([, count]) => count).sort((a, b) => b[1] - a[1]) : [];
  const shares = held.slice(0, 6).map(([label, count]) => `label ${label}: ${percent(count / federation.sizes[k])}`).join(", ");
  const now = map.selected(state.round, k) ? "selected" : map.available(state.round, k) ? "available, not selected" : "not available";
  note.textContent = `Client ${federation.names[k]}: ${plural(federation.sizes[k], "training example")}${shares ? " (" + shares + (held.length > 6 ? ", ..." : "") + ")" : ""}; ` +
    `available in ${percent(run.activity[k])} of the rounds, selected in ${run.counts[k]}` + (map.stride === 1 ? ` (${so} up to this one)` : "") + `; now ${now}.`;
}

function lookAtClient(k) {
  if (k === state.client) return;
  state.client = k;
  byId("client").value = k === null ? "" : String(k);
  showRound();
}

let playing = null;
function play(start) {
  if (playing !== null) clearInterval(playing);
  playing = null;
  const button = byId("play");
  button.setAttribute("aria-pressed", String(start));
  button.textContent = start ? "Pause" : "Play";
  if (!start) return;
  const last = Number(byId("round").max);
  if (state.round >= last) state.round = 0;
  playing = setInterval(() => {
    if (state.round >= last) { play(false); return; }
    state.round += 1;
    byId("round").value = state.round;
    showRound();
  }, 250);
}
