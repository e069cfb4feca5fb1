// What the page knows, and what is chosen: one state, one function that says when it changed.
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const state = { group: 0, seed: null, hidden: new Set(), method: null, metric: "test_loss", round: 0, client: null };

const runsOfGroup = () => DATA.runs.filter((run) => run.group === state.group);
const runsOfSeed = () => runsOfGroup().filter((run) => run.seed === state.seed);
const shownRuns = () => runsOfSeed().filter((run) => !state.hidden.has(run.label));
const labelsOfGroup = () => [...new Set(runsOfGroup().map((run) => run.label))];
const unique = (values) => [...new Set(values)];

// The run whose clients are looked at: the chosen method's with the chosen seed, else another seed of it that has a map.
function lookedAt() {
  const own = runsOfGroup().filter((run) => run.label === state.method);
  return own.find((run) => run.seed === state.seed && run.available !== undefined)
    || own.find((run) => run.available !== undefined)
    || own[0];
}

const unpacked = new Map();
function bits(index) {
  if (!unpacked.has(index)) {
    const text = atob(DATA.maps[index]);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    unpacked.set(index, bytes);
  }
  return unpacked.get(index);
}

// Clients and kept rounds of a run; bit(t, k) is whether client k was available (or selected) in the t-th kept round.
function mapOf(run) {
  if (!run || run.available === undefined) return null;
  const clients = DATA.federations[run.federation].names.length;
  const rounds = Math.ceil(run.done / run.stride);
  const reader = (index) => {
    const bytes = bits(index);
    return (t, k) => { const at = t * clients + k; return (bytes[at >> 3] >> (7 - (at & 7))) & 1; };
  };
  return { clients, rounds, stride: run.stride, available: reader(run.available), selected: reader(run.selected) };
}

// Positions that sort descending by a value; ties by position.
function descending(values) {
  return values.map((_, i) => i).sort((a, b) => values[b] - values[a] || a - b);
}

function element(name, attributes = {}, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function fillSelect(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
  select.value = String(chosen);
}

const percent = (share) => share === null ? "unknown" : `${Math.round(100 * share)} %`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
