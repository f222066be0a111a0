"use strict";
// Shows what the program answers. What is right and what is wrong, and each sentence, is the program's to say.

const element = (id) => document.getElementById(id);
const fields = { flags: element("flags"), manifest: element("manifest"), packet: element("packet") };
const names = Object.keys(fields);

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

// What stands in the fields, in the fragment of the address, and back.
const state = () => Object.fromEntries(names.map((name) => [name, fields[name].value]));

function fragment() {
  const said = names.filter((name) => fields[name].value !== "");
  return "#" + new URLSearchParams(said.map((name) => [name, fields[name].value]));
}

function fill(values) {
  for (const name of names) fields[name].value = values[name] ?? "";
}

function restore() {
  const said = new URLSearchParams(location.hash.slice(1));
  fill(names.some((name) => said.has(name)) ? Object.fromEntries(said) : EXAMPLES[0][1]);
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

const plain = (spans) => spans.map(({ text }) => text).join("");

function showProblems(problems) {
  for (const name of names) {
    list(element(`${name}-problems`), problems[name]);
    fields[name].setAttribute("aria-invalid", String(problems[name].length > 0));
  }
}

function showPart(article, part) {
  const find = (selector) => article.querySelector(selector);
  find(".title").textContent = part.title ?? "The pod";
  list(find(".about"), part.notes);
  const asked = part.verdict !== null;
  for (const section of article.querySelectorAll(".asked")) section.hidden = !asked;
  if (asked) {
    const { captured, sentence, way } = part.verdict;
    const meaning = captured === null ? "is-neither" : captured ? "is-captured" : "is-passing";
    find(".verdict").className = `verdict ${meaning}`;
    paint(find(".verdict"), sentence);
    paint(find(".way"), way);
  }
  find(".drawn").hidden = !part.picture;
  if (part.picture) {
    const image = find(".picture img");
    image.src = "data:image/svg+xml," + encodeURIComponent(part.picture);
    image.alt = asked
      ? `The packet’s way: ${plain(part.verdict.sentence)}`
      : "What is captured and what is excluded; the usual packets are listed below as text";
  }
  paint(find(".lint"), part.lint);
  paint(find(".usual"), part.usual);
  find(".iptables").textContent = part.iptables;
  find(".nft").textContent = part.nft;
}

function showParts(parts) {
  const root = element("parts");
  while (root.children.length > parts.length) root.lastElementChild.remove();
  while (root.children.length < parts.length) root.append(element("part").content.cloneNode(true));
  parts.forEach((part, at) => showPart(root.children[at], part));
}

// A screen reader is told once somebody pauses, and not at each letter.
function announce(answer) {
  const wrong = names.flatMap((name) => answer.problems[name]);
  const parts = answer.parts ?? [];
  const verdicts = parts.filter((part) => part.verdict).map((part) => {
    return (part.title ? `${part.title}: ` : "") + plain(part.verdict.sentence);
  });
  const count = wrong.length === 1 ? "1 problem" : `${wrong.length} problems`;
  const said = wrong.length > 0 ? [`${count} in the input: ${wrong.join("; ")}`] : verdicts;
  element("announcement").textContent = said.join(". ") || "Rules are shown.";
}

let cost = 0;
let pending = 0;
let pause = 0;

function update() {
  clearTimeout(pending);
  if (program === null) return;
  const begun = performance.now();
  let answer;
  try {
    answer = ask(state());
    if (answer.defect) throw new Error(answer.defect);
  } catch (error) {
    element("waiting").hidden = false;
    element("waiting").textContent = `This input meets a defect of the program: ${error.message}. Please report it, with the link to this page.`;
    program = null;
    restart();
    return;
  }
  element("waiting").hidden = true;
  element("output").setAttribute("aria-busy", "false");
  showProblems(answer.problems);
  list(element("notes"), answer.notes);
  if (answer.parts) showParts(answer.parts);
  const stale = answer.parts === null;
  element("stale").hidden = !stale || element("parts").children.length === 0;
  element("output").classList.toggle("is-stale", stale);
  cost = performance.now() - begun;
  clearTimeout(pause);
  pause = setTimeout(() => {
    announce(answer);
    if (location.hash !== fragment()) history.replaceState(null, "", fragment());
  }, 300);
}

// What takes long waits for the end of a word.
function changed() {
  clearTimeout(pending);
  element("output").setAttribute("aria-busy", "true");
  if (cost < 50) update();
  else pending = setTimeout(update, 150);
}

function copied(worked) {
  const said = worked ? "The link is copied." : "The address of this page is the link.";
  element("shared").textContent = said;
  element("announcement").textContent = said;
}

function start() {
  for (const name of names) fields[name].addEventListener("input", changed);
  for (const [title, values] of EXAMPLES) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = title;
    button.addEventListener("click", () => {
      // So that the way back leads to what was there.
      history.replaceState(null, "", fragment());
      fill(values);
      history.pushState(null, "", fragment());
      update();
    });
    element("examples").append(button);
  }
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
  load().then(update, (error) => {
    element("waiting").textContent = `This browser can’t run the program: ${error.message}`;
  });
}

start();
