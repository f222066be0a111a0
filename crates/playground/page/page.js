"use strict";
// Shows the answers of the program, which validates the input and words every sentence.

const element = (id) => document.getElementById(id);
const names = ["flags", "manifest", "packet", "flags_before", "manifest_before"];
const fields = Object.fromEntries(names.map((name) => [name, element(name)]));
// The packet flags that have separate controls.
const choices = { "--sender": element("sender"), "--proto": element("protocol") };

const USUAL = "-i '*' -b '*' -d 15090,15021,15020";
const LINKERD =
  "--mesh linkerd --inbound-ports-to-ignore 4190,4191,4567,4568 --outbound-ports-to-ignore 4567,4568 --proxy-uid 2102";
const POD = `apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  annotations:
    sidecar.istio.io/status: '{}'
    traffic.sidecar.istio.io/includeInboundPorts: "8080,8443"
    traffic.sidecar.istio.io/excludeOutboundIPRanges: 10.96.0.0/16
spec:
  containers:
    - name: web
      image: web
    - name: istio-proxy
      image: proxyv2
      args: [proxy, sidecar]
`;
const EXAMPLES = [
  ["Everything", { flags: USUAL, packet: "10.0.0.5:443" }, "Istio’s defaults capture all TCP, in and out."],
  ["The proxy’s own call", { flags: USUAL, packet: "10.0.0.5:443 --sender proxy" }, "It is not captured again."],
  ["Some networks, some ports", { flags: "-i 10.0.0.0/8 -x 10.96.0.0/16 -b 8080,9000-9100", packet: "9050" },
    "Includes and excludes."],
  ["TPROXY", { flags: `-m TPROXY ${USUAL}`, packet: "8080" }, "The proxy sees the client’s address."],
  ["DNS", { flags: `${USUAL} --redirect-dns --dns-servers 10.96.0.10`, packet: "10.96.0.10:53 --proto udp" },
    "DNS queries go to the proxy’s agent."],
  ["Linkerd", { flags: LINKERD, packet: "10.0.0.5:443" }, "Rules of linkerd’s init container."],
  ["Kuma", { flags: "--mesh kuma --redirect-all-dns-traffic", packet: "10.96.0.10:53 --proto udp" },
    "Rules of kumactl for a pod."],
  ["Ambient mode", { flags: "--mesh ambient", packet: "8080" }, "Istio without sidecars: ztunnel."],
  ["A pod’s annotations", { manifest: POD, packet: "9090" }, "The manifest of an injected pod."],
];

// The program: four WebAssembly exports; see src/interface.rs.
let program = null;
let code = null;

async function load() {
  const { source, integrity } = element("program").dataset;
  const embedded = () => Uint8Array.from(atob(element("program").textContent.trim()), (letter) => letter.charCodeAt(0));
  const packed = source ? await fetched(source, integrity) : new Blob([embedded()]);
  const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  code = await WebAssembly.compile(await new Response(stream).arrayBuffer());
  await restart();
}

// A hosted page loads the program from a file beside it.
async function fetched(source, integrity) {
  const response = await fetch(source, { integrity, credentials: "omit" });
  if (!response.ok) throw new Error(`${source}: ${response.status}`);
  return response.blob();
}

async function restart() {
  program = (await WebAssembly.instantiate(code, {})).exports;
}

function ask(request) {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const place = program.request(bytes.length);
  new Uint8Array(program.memory.buffer, place, bytes.length).set(bytes);
  const length = program.answer();
  return JSON.parse(new TextDecoder().decode(new Uint8Array(program.memory.buffer, program.response(), length)));
}

// The history's state holds the whole input; the address's fragment holds the parts that the program allows in links.
function state() {
  const values = Object.fromEntries(names.map((name) => [name, fields[name].value]));
  if (values.packet.trim() !== "") {
    for (const [flag, choice] of Object.entries(choices)) if (choice.value) values.packet += ` ${flag} ${choice.value}`;
  }
  return values;
}

let link = {};

function remember(how = "replaceState") {
  const held = { ...state(), ...link };
  const given = names.map((name) => [name, held[name]]).filter(([, value]) => value !== "");
  history[how](state(), "", "#" + new URLSearchParams(given));
}

function fill(values) {
  for (const name of names) fields[name].value = values[name] ?? "";
  fillPacket(values.packet ?? "");
  selectTab(fields.flags.value === "" && fields.manifest.value !== "" ? "manifest" : "flags");
}

// An example's flags, which the reader has not typed, would override the manifest.
function yieldFlags({ target }) {
  const given = fields[target.id.replace("manifest", "flags")];
  const isExample = EXAMPLES.some(([, { flags }]) => flags === given.value);
  if (isExample && target.value.trim() !== "") given.value = "";
}

function fillPacket(packet) {
  fields.packet.value = packet;
  for (const [flag, choice] of Object.entries(choices)) {
    const words = new RegExp(`(^|\\s)${flag}[ =](\\S+)`);
    const given = fields.packet.value.match(words)?.[2] ?? "";
    choice.value = "";
    if (![...choice.options].some((option) => option.value !== "" && option.value === given)) continue;
    choice.value = given;
    fields.packet.value = fields.packet.value.replace(words, "").trim();
  }
}

function restore(values) {
  const given = new URLSearchParams(location.hash.slice(1));
  const linked = names.some((name) => given.has(name)) ? Object.fromEntries(given) : EXAMPLES[0][1];
  fill(values ?? linked);
}

// Configurations share an area; marked tabs are in use or have problems.
const TABS = { flags: ["flags"], manifest: ["manifest"], before: ["flags_before", "manifest_before"] };

function selectTab(selected) {
  for (const name of Object.keys(TABS)) {
    const tab = element(`${name}-tab`);
    tab.setAttribute("aria-selected", String(name === selected));
    tab.tabIndex = name === selected ? 0 : -1;
    element(`${name}-panel`).hidden = name !== selected;
  }
}

function moveAmongTabs({ key, target }) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (!step) return;
  const all = Object.keys(TABS);
  const next = all.at((all.findIndex((name) => target.id === `${name}-tab`) + step) % all.length);
  selectTab(next);
  element(`${next}-tab`).focus();
}

function markTabs(problems) {
  for (const [name, held] of Object.entries(TABS)) {
    element(`${name}-tab`).classList.toggle("is-used", held.some((field) => fields[field].value.trim() !== ""));
    element(`${name}-tab`).classList.toggle("is-wrong", held.some((field) => field in problems));
  }
}

// Display.
function list(into, sentences) {
  into.replaceChildren(...sentences.map((sentence) => piece("li", "", sentence)));
}

function paint(into, lines) {
  const painted = ({ style, text }) => piece("span", style ?? "", text);
  into.replaceChildren(...lines.flatMap(({ spans }) => [...spans.map(painted), "\n"]));
}

const SVG = "data:image/svg+xml,";
const plain = ({ word, sentence }) => `${word}: ${sentence}`;

function piece(tag, name, text, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function button(name, text, then) {
  const made = piece("button", name, text);
  made.type = "button";
  made.addEventListener("click", then);
  return made;
}

function showProblems(problems) {
  for (const name of names) {
    list(element(`${name}-problems`), problems[name] ?? []);
    fields[name].setAttribute("aria-invalid", String(name in problems));
  }
  markTabs(problems);
}

// The verdict's word is a badge; the sentence is beside it.
function showVerdict(into, { kind, word, sentence }) {
  into.className = `verdict is-${kind}`;
  into.replaceChildren(piece("span", "badge", word), piece("span", "unseen", ": "), piece("span", "sentence", sentence));
}

const counted = (number, one, several = `${one}s`) => `${number} ${number === 1 ? one : several}`;

// Asks about a packet, as if it had been typed.
function askAbout(packet) {
  remember();
  fillPacket(packet);
  update();
  remember("pushState");
}

// Shows the packets that match a rule or an arrow; a click asks about one.
const MOST_TAKEN = 12;

function showTaken(into, what, packets) {
  const asks = [...new Map(packets.map((packet) => [packet.ask, packet])).values()];
  const few = asks.slice(0, MOST_TAKEN).map(({ ask, kind }) => button(`packet ${kind}`, ask, () => askAbout(ask)));
  const more = asks.length > MOST_TAKEN ? ` and ${asks.length - MOST_TAKEN} more` : "";
  const said = asks.length === 0 ? `No typical packet matches ${what}.` : `Packets that match ${what}:`;
  into.replaceChildren(piece("p", "", said), piece("div", "buttons", "", ...few, more));
}

// Arrows over the picture; in narrow windows, a list.
function showArrows(article, { width, height, rows }, packets, notes) {
  const canvas = article.querySelector(".canvas");
  for (const old of canvas.querySelectorAll("button")) old.remove();
  const items = notes.map((note) => piece("li", "note", note));
  rows.forEach((row, number) => {
    const taken = packets.filter(({ arrow }) => arrow && String(arrow) === String(row.at));
    const into = article.querySelector(".drawn .taken");
    const take = () => showTaken(into, `the arrow “${row.packets}: ${row.end}”`, taken);
    const area = button("arrow", "", take);
    area.setAttribute("aria-label", `${row.part}, ${row.packets}: ${row.end}. Show packets`);
    area.style.top = `${(100 * row.top) / height}%`;
    area.style.height = `${(100 * row.height) / height}%`;
    canvas.append(area);
    if (row.part !== rows[number - 1]?.part) items.push(piece("li", "strong", row.part));
    const line = button(row.lit ? "is-lit" : "", "", take);
    line.append(piece("span", row.kind, row.end), ` ${row.packets}`);
    items.push(piece("li", "", "", line));
  });
  article.querySelector(".drawn-list").replaceChildren(...items);
  const image = canvas.querySelector("img");
  [image.width, image.height] = [width, height];
}

function showFindings(article, findings) {
  const items = findings.map(({ level, code, subject, text, remedy, fix }) => {
    const item = piece("li", level, "", piece("span", "level", level), " ", piece("span", "code", code), " ");
    if (subject) item.append(piece("span", "option", subject), ": ");
    item.append(piece("span", "text", text));
    if (remedy) item.append(piece("p", "remedy", `→ ${remedy}`));
    if (fix) item.append(button("fix", fix.label, () => follow(fix)));
    return item;
  });
  article.querySelector(".findings").replaceChildren(...items);
}

// Changes a field as a remedy advises. Back restores the former input.
function follow({ field, value }) {
  remember();
  fields[field].value = value;
  selectTab(field);
  update();
  remember("pushState");
  fields[field].focus();
}

const isRule = (line) => /^-[AI] /.test(line);

// Rule lines are buttons: Tab reaches the first, and arrow keys the others.
function showRules(article, text, packets) {
  const into = article.querySelector(".iptables");
  const matching = new Map();
  for (const packet of packets) {
    for (const line of packet.lines) matching.set(line, [...(matching.get(line) ?? []), packet]);
  }
  const lines = text.replace(/\n$/, "").split("\n").map((line, number) => {
    if (!isRule(line)) return `${line}\n`;
    const place = into.closest("details").querySelector(".taken");
    const rule = button("rule", line, () => showTaken(place, "this rule", matching.get(number) ?? []));
    rule.tabIndex = -1;
    return piece("span", "", "", rule, "\n");
  });
  into.replaceChildren(...lines);
  into.querySelector(".rule")?.setAttribute("tabindex", "0");
}

function moveAmongRules(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches(".rule")) return;
  const rules = [...event.currentTarget.querySelectorAll(".rule")];
  const next = rules[rules.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

const MESHES = { istio: "Istio sidecar", linkerd: "Linkerd", kuma: "Kuma", ambient: "Istio ambient mode" };

function showPart(article, part) {
  const find = (selector) => article.querySelector(selector);
  const { verdict, packets, findings } = part;
  const title = part.title ?? `${MESHES[part.mesh]}: a pod with these flags`;
  const asked = verdict !== null;
  // Unchanged parts keep their display and scroll position.
  const key = JSON.stringify(part);
  if (article.key === key) return;
  article.key = key;
  article.shown = part;
  find(".title").textContent = title;
  list(find(".about"), part.notes);
  find(".asked").hidden = !asked;
  if (!asked) {
    find(".verdict").className = "verdict";
    find(".verdict").textContent = "Enter a packet to see where it goes.";
  } else {
    showVerdict(find(".verdict"), verdict);
    find(".verdict").classList.toggle("is-later", part.awaits_injection);
    find(".decided").textContent = verdict.decided ? `Decided by ${verdict.decided}` : "Rules evaluated";
    paint(find(".way"), verdict.way);
  }
  const image = find(".picture img");
  image.src = SVG + encodeURIComponent(part.picture);
  image.alt = asked
    ? `The path of the packet: ${plain(verdict)}`
    : "Captured and excluded traffic, also listed below";
  showArrows(article, part.arrows, packets, part.picture_notes);
  find(".count").textContent = findings.length === 0 ? "No findings" : counted(findings.length, "finding");
  find(".count").parentElement.hidden = findings.length === 0;
  showFindings(article, findings);
  find(".rules").textContent = counted(part.iptables.split("\n").filter(isRule).length, "rule");
  showRules(article, part.iptables, packets);
  find(".nft").textContent = part.nft;
  for (const taken of article.querySelectorAll(".taken")) taken.replaceChildren();
  const regions = {
    ".picture": "Picture of the traffic", ".way": "Rules evaluated for the packet",
    ".iptables": "Rules for iptables-restore", ".nft": "Rules for nft",
  };
  for (const [selector, name] of Object.entries(regions)) {
    find(selector).setAttribute("aria-label", part.title ? `${name}: ${part.title}` : name);
  }
}

// Copies and saves a part's content.
function save(name, url) {
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
}

async function png(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.naturalWidth, 2 * image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

async function useButton(used) {
  const article = used.closest("article");
  const { copies, saves } = used.dataset;
  used.dataset.text ??= used.textContent;
  try {
    if (copies) await navigator.clipboard.writeText(article.shown[copies]);
    if (saves === "svg") save("traffic.svg", SVG + encodeURIComponent(article.shown.picture));
    if (saves === "png") save("traffic.png", await png(article.querySelector(".picture img")));
    used.textContent = copies ? "Copied" : "Saved";
  } catch {
    used.textContent = "Not allowed by the browser";
  }
  element("announcement").textContent = used.textContent;
  setTimeout(() => (used.textContent = used.dataset.text), 1500);
}

const inSight = new IntersectionObserver(([{ isIntersecting }]) => {
  element("summary").hidden = isIntersecting;
});

function showParts(parts) {
  const root = element("parts");
  while (root.children.length > parts.length) root.lastElementChild.remove();
  while (root.children.length < parts.length) {
    root.append(element("part").content.cloneNode(true));
    root.lastElementChild.querySelector(".iptables").addEventListener("keydown", moveAmongRules);
  }
  parts.forEach((part, at) => showPart(root.children[at], part));
  // In a narrow window, the first verdict is repeated at the edge while it is out of sight.
  const first = root.querySelector(".verdict");
  const count = parts.length > 0 && parts[0].findings.length;
  element("summary").replaceChildren(...first.cloneNode(true).childNodes);
  if (count) element("summary").append(piece("span", "unknown", counted(count, "finding")));
  element("summary").className = first.className;
  inSight.disconnect();
  inSight.observe(first);
}

// The changes between two configurations.
function showCompared(compared) {
  const shown = compared.map(({ title, changes, notes }) => {
    // Notes report an incomplete comparison.
    const none = notes.length === 0 ? "No verdict changes" : "No verdict change was found";
    const count = changes.length === 0 ? none : counted(changes.length, "verdict change");
    const rows = changes.map((change) => {
      const { text, ask } = change;
      const cell = ask === null ? piece("span", "cell", text) : button("cell", text, () => askAbout(ask));
      const head = Object.assign(piece("th", "", "", cell), { scope: "row" });
      const ends = [change.old, change.new].map(({ verdict, summary, reason }) =>
        piece("td", "", "", piece("span", `end is-${verdict}`, "", piece("span", "badge", verdict.replace("_", " "))),
          piece("p", "help", `${summary}, because ${reason}`)));
      return piece("tr", "", "", head, ...ends);
    });
    const heads = ["Packets", "Before", "After"].map((text) => Object.assign(piece("th", "", text), { scope: "col" }));
    const table = piece("table", "", "", piece("caption", "unseen", "Packets whose verdict changes"),
      piece("thead", "", "", piece("tr", "", "", ...heads)), piece("tbody", "", "", ...rows));
    const region = piece("div", "usual", "", ...(rows.length > 0 ? [table] : []));
    const about = title ? `${title}: ${count[0].toLowerCase()}${count.slice(1)}` : count;
    if (rows.length > 0) {
      region.tabIndex = 0;
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", about);
    }
    return piece("section", "", "", piece("h2", "", about), region, ...notes.map((note) => piece("p", "help", note)));
  });
  element("compared").replaceChildren(...shown);
}

// A screen reader announces the answer after a pause, not at each letter.
function announce(answer) {
  const problems = names.flatMap((name) => answer.problems[name] ?? []);
  const parts = answer.parts ?? [];
  const verdicts = parts.filter((part) => part.verdict).map((part) => {
    return (part.title ? `${part.title}: ` : "") + plain(part.verdict);
  });
  const said = problems.length > 0 ? [`${counted(problems.length, "problem")} in the input: ${problems.join("; ")}`] : verdicts;
  element("announcement").textContent = said.join(". ") || "Rules are shown.";
}

const PAUSE = 700;
let cost = 0;
let pending = 0;
let pause = 0;
// The shown answer's configuration.
let shownFor = null;

// If only the packet is wrong, the last answer stays until its correction.
function show(answer, { packet, ...others }) {
  const configuration = JSON.stringify(others);
  const waits = answer.parts === null || ("packet" in answer.problems && configuration === shownFor);
  if (!waits) {
    showParts(answer.parts);
    showCompared(answer.compared);
    shownFor = configuration;
  }
  const stale = waits && element("parts").children.length > 0 && !element("parts").hidden;
  element("stale").hidden = !stale;
  element("output").classList.toggle("is-stale", stale);
}

function update(typed = null) {
  clearTimeout(pending);
  clearTimeout(pause);
  if (program === null) return;
  const begun = performance.now();
  const request = state();
  let answer;
  try {
    answer = ask(request);
    if (answer.defect) throw new Error(answer.defect);
  } catch (error) {
    element("waiting").hidden = false;
    element("waiting").textContent = `This input crashes the program: ${error.message}. Please report it with the link to this page.`;
    program = null;
    restart();
    return;
  }
  const isEmpty = request.flags.trim() === "" && request.manifest.trim() === "";
  element("empty").hidden = !isEmpty;
  element("parts").hidden = isEmpty;
  element("compared").hidden = isEmpty;
  show(answer, request);
  element("waiting").hidden = isEmpty || element("parts").children.length > 0;
  element("waiting").textContent = "Correct the input to see a result.";
  const { holds, ...held } = answer.link;
  link = held;
  element("holds").textContent = holds;
  list(element("notes"), answer.notes);
  cost = performance.now() - begun;
  const settle = () => {
    clearTimeout(pause);
    showProblems(answer.problems);
    element("output").setAttribute("aria-busy", "false");
  };
  // Unfinished input is not wrong: problems of the field that is being typed into wait for a pause.
  const waits = typed !== null && typed === document.activeElement && typed.id in answer.problems;
  if (!waits) settle();
  pause = setTimeout(() => {
    settle();
    announce(answer);
    remember();
  }, waits ? PAUSE : 300);
}

// Slow answers wait until the reader stops typing.
function changed(event) {
  clearTimeout(pending);
  clearTimeout(pause);
  element("output").setAttribute("aria-busy", "true");
  const typed = event?.target ?? null;
  if (cost < 50) update(typed);
  else pending = setTimeout(update, 150, typed);
}

function copied(worked) {
  const said = worked ? "Copied." : "Copy this page’s address instead.";
  element("shared").textContent = element("announcement").textContent = said;
}

function start() {
  for (const name of ["manifest", "manifest_before"]) fields[name].addEventListener("input", yieldFlags);
  for (const field of Object.values(fields)) {
    field.addEventListener("input", changed);
    field.addEventListener("blur", () => element("output").getAttribute("aria-busy") === "true" && update());
  }
  for (const choice of Object.values(choices)) choice.addEventListener("change", changed);
  for (const name of Object.keys(TABS)) {
    element(`${name}-tab`).addEventListener("click", () => selectTab(name));
    element(`${name}-tab`).addEventListener("keydown", moveAmongTabs);
  }
  const setBefore = (flags, manifest) => {
    fields.flags_before.value = flags;
    fields.manifest_before.value = manifest;
    changed();
  };
  element("keep").addEventListener("click", () => setBefore(fields.flags.value, fields.manifest.value));
  element("discard").addEventListener("click", () => setBefore("", ""));
  element("input").addEventListener("dragover", (event) => event.preventDefault());
  element("input").addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    fields.manifest.value = await file.text();
    selectTab("manifest");
    fields.manifest.dispatchEvent(new Event("input"));
  });
  element("parts").addEventListener("click", ({ target }) => target.matches("[data-copies], [data-saves]") && useButton(target));
  for (const [title, values, about] of EXAMPLES) {
    const start = () => {
      // The back button returns to the former input.
      remember();
      fill(values);
      update();
      remember("pushState");
    };
    element("examples").append(button("", title, start));
    element("starts").append(piece("li", "", "", button("", title, start), ` ${about}`));
  }
  element("sharing").hidden = location.protocol === "file:";
  element("share").addEventListener("click", () => {
    remember();
    const clipboard = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    clipboard.then(() => copied(true), () => copied(false));
  });
  window.addEventListener("popstate", (event) => {
    restore(event.state);
    update();
  });
  restore(history.state);
  load().then(() => update(), (error) => {
    element("waiting").textContent = `This browser can’t run the program: ${error.message}`;
  });
}

start();
