"use strict";
// Shows the answers of the program, which decides what is valid and words every sentence.

const element = (id) => document.getElementById(id);
const fields = { flags: element("flags"), manifest: element("manifest"), packet: element("packet") };
const names = Object.keys(fields);
// The flags of a packet that have a control of their own.
const choices = { "--as": element("sender"), "--proto": element("protocol") };

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
  ["Everything", { flags: USUAL, packet: "10.0.0.5:443" }],
  ["The proxy’s own call", { flags: USUAL, packet: "10.0.0.5:443 --as proxy" }],
  ["Some networks, some ports", { flags: "-i 10.0.0.0/8 -x 10.96.0.0/16 -b 8080,9000-9100", packet: "9050" }],
  ["TPROXY", { flags: `-m TPROXY ${USUAL}`, packet: "8080" }],
  ["DNS", { flags: `${USUAL} --redirect-dns --dns-servers 10.96.0.10`, packet: "10.96.0.10:53 --proto udp" }],
  ["Linkerd", { flags: LINKERD, packet: "10.0.0.5:443" }],
  ["Kuma", { flags: "--mesh kuma --redirect-all-dns-traffic", packet: "10.96.0.10:53 --proto udp" }],
  ["Ambient mode", { flags: "--mesh ambient", packet: "8080" }],
  ["A pod’s annotations", { manifest: POD, packet: "9090" }],
];

// The program: four names of WebAssembly, see src/interface.rs.
let program = null;
let code = null;

async function load() {
  const packed = Uint8Array.from(atob(element("program").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  code = await WebAssembly.compile(await new Response(stream).arrayBuffer());
  await restart();
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

// The input, in the fragment of the address and back.
function state() {
  const values = Object.fromEntries(names.map((name) => [name, fields[name].value]));
  if (values.packet.trim() !== "") {
    for (const [flag, choice] of Object.entries(choices)) if (choice.value) values.packet += ` ${flag} ${choice.value}`;
  }
  return values;
}

function fragment() {
  const given = Object.entries(state()).filter(([, value]) => value !== "");
  return "#" + new URLSearchParams(given);
}

function fill(values) {
  for (const name of names) fields[name].value = values[name] ?? "";
  for (const [flag, choice] of Object.entries(choices)) {
    const words = new RegExp(`(^|\\s)${flag}[ =](\\S+)`);
    const given = fields.packet.value.match(words)?.[2] ?? "";
    choice.value = "";
    if (![...choice.options].some((option) => option.value !== "" && option.value === given)) continue;
    choice.value = given;
    fields.packet.value = fields.packet.value.replace(words, "").trim();
  }
  selectTab(fields.flags.value === "" && fields.manifest.value !== "" ? "manifest" : "flags");
}

function restore() {
  const given = new URLSearchParams(location.hash.slice(1));
  fill(names.some((name) => given.has(name)) ? Object.fromEntries(given) : EXAMPLES[0][1]);
}

// Flags and manifest share a place; a mark on the tab shows that the other one is in use or has problems.
const TABS = ["flags", "manifest"];

function selectTab(selected) {
  for (const name of TABS) {
    const tab = element(`${name}-tab`);
    tab.setAttribute("aria-selected", String(name === selected));
    tab.tabIndex = name === selected ? 0 : -1;
    element(`${name}-panel`).hidden = name !== selected;
  }
}

function markTabs(problems) {
  for (const name of TABS) {
    element(`${name}-tab`).classList.toggle("is-used", fields[name].value.trim() !== "");
    element(`${name}-tab`).classList.toggle("is-wrong", problems[name].length > 0);
  }
}

// Showing.
function list(into, sentences) {
  const items = sentences.map((sentence) => {
    const item = document.createElement("li");
    item.textContent = sentence;
    return item;
  });
  into.replaceChildren(...items);
}

function paint(into, spans) {
  const pieces = spans.map(({ style, text }) => {
    const piece = document.createElement("span");
    if (style) piece.className = style;
    piece.textContent = text;
    return piece;
  });
  into.replaceChildren(...pieces);
}

const SVG = "data:image/svg+xml,";
const plain = (spans) => spans.map(({ text }) => text).join("");

function showProblems(problems) {
  for (const name of names) {
    list(element(`${name}-problems`), problems[name]);
    fields[name].setAttribute("aria-invalid", String(problems[name].length > 0));
  }
  markTabs(problems);
}

// The word of the verdict is a badge, the rest a sentence beside it.
function showVerdict(into, { kind, sentence }) {
  into.className = `verdict asked is-${kind}`;
  paint(into, sentence);
  const [word, colon, rest] = plain(sentence).split(/(: )(.*)/s);
  const piece = (name, text) => {
    const span = document.createElement("span");
    span.className = name;
    span.textContent = text;
    return span;
  };
  into.replaceChildren(piece("badge", word), piece("unseen", colon ?? ""), piece("", rest ?? ""));
}

function showPart(article, part) {
  const find = (selector) => article.querySelector(selector);
  find(".title").textContent = part.title ?? "The pod";
  list(find(".about"), part.notes);
  const asked = part.verdict !== null;
  for (const section of article.querySelectorAll(".asked")) section.hidden = !asked;
  if (asked) {
    showVerdict(find(".verdict"), part.verdict);
    paint(find(".way"), part.verdict.way);
  }
  find(".drawn").hidden = !part.picture;
  if (part.picture) {
    const image = find(".picture img");
    image.src = SVG + encodeURIComponent(part.picture);
    image.alt = asked
      ? `The path of the packet: ${plain(part.verdict.sentence)}`
      : "Captured and excluded traffic; the common cases are listed below as text";
  }
  paint(find(".drawn-text"), part.picture_text);
  paint(find(".lint"), part.lint);
  paint(find(".usual"), part.usual);
  find(".iptables").textContent = part.iptables;
  find(".nft").textContent = part.nft;
  article.part = part;
}

// Copying and saving what a part shows.
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

async function useButton(button) {
  const article = button.closest("article");
  const { copies, saves } = button.dataset;
  const before = button.textContent;
  try {
    if (copies) await navigator.clipboard.writeText(article.part[copies]);
    if (saves === "svg") save("traffic.svg", SVG + encodeURIComponent(article.part.picture));
    if (saves === "png") save("traffic.png", await png(article.querySelector(".picture img")));
    button.textContent = copies ? "Copied" : "Saved";
  } catch {
    button.textContent = "Not allowed by the browser";
  }
  element("announcement").textContent = button.textContent;
  setTimeout(() => (button.textContent = before), 1500);
}

function showParts(parts) {
  const root = element("parts");
  while (root.children.length > parts.length) root.lastElementChild.remove();
  while (root.children.length < parts.length) root.append(element("part").content.cloneNode(true));
  parts.forEach((part, at) => showPart(root.children[at], part));
}

// A screen reader hears the answer after a pause, and not at each letter.
function announce(answer) {
  const problems = names.flatMap((name) => answer.problems[name]);
  const parts = answer.parts ?? [];
  const verdicts = parts.filter((part) => part.verdict).map((part) => {
    return (part.title ? `${part.title}: ` : "") + plain(part.verdict.sentence);
  });
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  const said = problems.length > 0 ? [`${count} in the input: ${problems.join("; ")}`] : verdicts;
  element("announcement").textContent = said.join(". ") || "Rules are shown.";
}

const PAUSE = 700;
let cost = 0;
let pending = 0;
let pause = 0;
// The configuration of what is shown.
let shownFor = null;

// Where only the packet is wrong, the last answer stays until it is right again.
function show(answer, { flags, manifest }) {
  const configuration = JSON.stringify([flags, manifest]);
  const waits = answer.parts === null || (answer.problems.packet.length > 0 && configuration === shownFor);
  if (!waits) {
    showParts(answer.parts);
    shownFor = configuration;
  }
  const stale = waits && element("parts").children.length > 0;
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
  element("waiting").hidden = true;
  show(answer, request);
  list(element("notes"), answer.notes);
  cost = performance.now() - begun;
  const settle = () => {
    clearTimeout(pause);
    showProblems(answer.problems);
    element("output").setAttribute("aria-busy", "false");
  };
  // The beginning of something right is not wrong: problems of the field that is being typed into wait for a pause.
  const waits = typed !== null && typed === document.activeElement && answer.problems[typed.id]?.length > 0;
  if (!waits) settle();
  pause = setTimeout(() => {
    settle();
    announce(answer);
    if (location.hash !== fragment()) history.replaceState(null, "", fragment());
  }, waits ? PAUSE : 300);
}

// What takes long waits for the end of a word.
function changed(event) {
  clearTimeout(pending);
  element("output").setAttribute("aria-busy", "true");
  const typed = event?.target ?? null;
  if (cost < 50) update(typed);
  else pending = setTimeout(update, 150, typed);
}

function copied(worked) {
  const said = worked ? "Copied." : "Copy the address of this page instead.";
  element("shared").textContent = said;
  element("announcement").textContent = said;
}

function start() {
  for (const field of Object.values(fields)) {
    field.addEventListener("input", changed);
    field.addEventListener("blur", () => element("output").getAttribute("aria-busy") === "true" && update());
  }
  for (const choice of Object.values(choices)) choice.addEventListener("change", changed);
  for (const name of TABS) {
    element(`${name}-tab`).addEventListener("click", () => selectTab(name));
    element(`${name}-tab`).addEventListener("keydown", ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      const other = TABS.find((other) => other !== name);
      selectTab(other);
      element(`${other}-tab`).focus();
    });
  }
  element("input").addEventListener("dragover", (event) => event.preventDefault());
  element("input").addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    fields.manifest.value = await file.text();
    selectTab("manifest");
    changed();
  });
  element("parts").addEventListener("click", ({ target }) => target.matches("button") && useButton(target));
  for (const [title, values] of EXAMPLES) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = title;
    button.addEventListener("click", () => {
      // The back button returns to the former input.
      history.replaceState(null, "", fragment());
      fill(values);
      history.pushState(null, "", fragment());
      update();
    });
    element("examples").append(button);
  }
  element("share").hidden = location.protocol === "file:";
  element("share").addEventListener("click", () => {
    history.replaceState(null, "", fragment());
    const clipboard = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    clipboard.then(() => copied(true), () => copied(false));
  });
  window.addEventListener("popstate", () => {
    restore();
    update();
  });
  restore();
  load().then(() => update(), (error) => {
    element("waiting").textContent = `This browser can’t run the program: ${error.message}`;
  });
}

start();
