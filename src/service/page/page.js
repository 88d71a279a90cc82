// SPDX-License-Identifier: Apache-2.0
"use strict";

// It reads /status.json and /history.json of the service that sent it, and changes nothing. All texts of
// ranks come in by textContent.

const EVERY_MS = 1000, LATE_MS = 5000;
const REFINED_MS = 60000; // the cause of an incident may be known better for so long
const NUMBERED = 160, SMALL = 640; // places that have their number in it, and those that are not tiny
const HOUR_MS = 3600000;
const STATES = { // from the worst on: the sign in a place, and what it means
  lost: ["×", "lost"], absent: ["?", "never came"], silent: ["~", "silent"], joining: ["+", "joining"],
  slow: ["<", "straggler"], left: ["–", "left"], spare: ["·", "spare"], plain: ["o", "without muster"], present: ["", "here"],
};
const WORST = Object.keys(STATES);
const KINDS = { // of incidents: sign and class
  lost: ["×", "bad"], "node-lost": ["×", "bad"], fault: ["!", "bad"], "too-few": ["!", "bad"], notice: ["◆", "warn"],
  saved: ["✓", "fine"], "service-restarted": ["↻", "warn"], started: ["▸", "calm"], restarted: ["↻", "calm"],
  grew: ["+", "calm"], "began-again": ["▸", "calm"], straggler: ["<", "warn"], "all-restarted": ["↻", "bad"],
};

const job = new URLSearchParams(location.search).get("job");
const incidents = new Map(); // by number, with the time of each
let story = null, status = null, asked = 0, failing = null, range = "hour", chosen = null;

// ---- small tools ----

const $ = (id) => document.getElementById(id);

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function made(node, attributes, kids) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...kids);
  return node;
}

const el = (tag, attributes = {}, ...kids) => made(document.createElement(tag), attributes, kids);
const svg = (tag, attributes = {}, ...kids) => made(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, kids);
const item = (text) => el("li", {}, text);

// What is as it was is not built again: it keeps the focus, and costs nothing.
const built = new Map();
function draw(node, data, build) {
  const key = JSON.stringify(data);
  if (built.get(node) === key) return;
  built.set(node, key);
  node.replaceChildren(...build());
}

function fill(id, items, build) {
  const section = $(id);
  section.hidden = items.length === 0;
  const list = section.querySelector("tbody") || section.querySelector("ul");
  draw(list, items, () => items.map(build));
}

const row = (...texts) => el("tr", {}, ...texts.map((text) => el("td", {}, text)));

function span(ms) {
  const s = ms / 1000;
  if (s < 1) return Math.round(ms) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  return s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
}

const clock = (at) => new Date(at).toLocaleTimeString([], {hour12: false});

function date(at) {
  const day = new Date(at);
  return day.toDateString() === new Date().toDateString() ? clock(at) : day.toLocaleDateString() + " " + clock(at);
}

function ranges(numbers) { // 1, 2, 3, 7 is "1–3, 7"
  const found = [];
  for (const n of numbers) {
    const last = found[found.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else found.push([n, n]);
  }
  return found.map(([a, b]) => a === b ? "#" + a : "#" + a + (b > a + 1 ? "–#" : ", #") + b).join(", ");
}

const toneOf = (one) => (KINDS[one.what] || ["?", "calm"])[1];
const many = (count, noun) => count + " " + noun + (count === 1 ? "" : "s");

// ---- asking ----

async function ask(path, args) {
  const query = new URLSearchParams(job === null ? args : {job, ...args});
  const answer = await fetch(path + "?" + query, {signal: AbortSignal.timeout(LATE_MS)});
  if (!answer.ok) throw new Error("The service answers: " + (await answer.text()).trim());
  return answer.json();
}

// The number after which incidents may be new, or known better than before.
function settled(now) {
  let after = 0;
  for (const [number, one] of incidents) if (now - one.at > REFINED_MS) after = Math.max(after, number);
  return after;
}

function remember(found, now) {
  const newest = found.incidents.length ? found.incidents[found.incidents.length - 1].number : 0;
  for (const number of incidents.keys()) if (number > newest && newest) incidents.clear(); // another life of the job
  for (const one of found.incidents) {
    incidents.set(one.number, {...one, at: incidents.get(one.number)?.at ?? now - one.ago_ms});
  }
  while (incidents.size > 1024) incidents.delete(incidents.keys().next().value);
  story = found;
}

async function refresh() {
  const began = performance.now();
  try {
    const [seen, past] = await Promise.all([ask("status.json", {brief: 1}), ask("history.json", {after: settled(Date.now())})]);
    const came = performance.now();
    status = seen;
    asked = Date.now();
    remember(past, asked);
    failing = null;
    show();
    Object.assign(document.body.dataset, {ms: performance.now() - began, drawMs: performance.now() - came});
  } catch (error) {
    const why = error.message.startsWith("The service") ? error.message : "The service does not answer";
    failing = {since: failing?.since || Date.now(), why};
  }
  showLink();
  setTimeout(refresh, EVERY_MS);
}

// ---- the head ----

function showLink() {
  const text = failing ? failing.why + ", since " + clock(failing.since) + ". The page asks again every second." : "";
  put($("link"), text);
  $("link").hidden = !failing;
  document.body.classList.toggle("stale", !!failing);
  announce(text || $("verdict").textContent);
}

// To a screen reader: what is new but for how long it is so.
let announced = "";
function announce(text) {
  const sense = text.replace(/\b\d+(\.\d+)? (ms|s|min|h|days?)\b/g, "");
  if (sense !== announced) {
    announced = sense;
    put($("live"), text);
  }
}

function showHead() {
  const {verdict} = status;
  const newest = [...incidents.values()].filter((one) => toneOf(one) !== "calm").pop();
  put($("job"), status.job);
  put($("address"), status.address);
  put($("verdict"), verdict.sentence);
  $("verdict").parentNode.className = verdict.level;
  put($("last"), newest && !verdict.sentence.includes(newest.sentence) ? span(asked - newest.at) + " ago: " + newest.sentence : "");
  document.title = (verdict.level === "good" ? "" : "! ") + status.job + ": " + verdict.sentence;
}

function facts() {
  const found = [];
  const fact = (name, value, more) => found.push([name, String(value), more || ""]);
  fact("ranks", status.present + " of " + status.size, status.spares ? many(status.spares, "spare") : "");
  fact("generation", status.generation, status.since_ms == null ? "" : "for " + span(status.since_ms));
  if (story) {
    const lost = story.without_ms;
    fact("restarts", story.restarts, status.restarts_left == null ? "" : status.restarts_left + " left");
    fact("time without all ranks", span(lost), story.age_ms ? (100 * lost / story.age_ms).toFixed(2) + " %" : "");
    fact("run", span(story.age_ms), story.from_the_start ? "" : "or more");
    if (story.service_restarts) fact("service restarts", story.service_restarts);
  }
  if (status.steps_per_s != null) fact("steps per second", +status.steps_per_s.toPrecision(3));
  return found;
}

// ---- ranks ----

// [{host, places: [{key, index, rank, state}], states}]: what is here, what runs without muster, and what never came.
function places() {
  const hosts = new Map(), whole = status.by_host.every((of) => of.places);
  const host = (name) => {
    if (!hosts.has(name)) hosts.set(name, {host: name, states: {}, places: []});
    return hosts.get(name);
  };
  const add = (name, place) => {
    const of = host(name);
    of.states[place.state] = (of.states[place.state] || 0) + 1;
    if (whole) of.places.push({...place, host: name, key: place.role + place.index});
  };
  const slow = new Set(status.stragglers);
  const known = new Set();
  for (const of of status.by_host) {
    if (!of.places) host(of.host).states = {...of.states};
    for (const [role, index, rank, state] of of.places || []) {
      if (role === "rank") known.add(index);
      add(of.host, {role, index, rank, state: state === "present" && slow.has(index) ? "slow" : state});
    }
  }
  for (const one of status.without_muster) add(one.host, {role: "rank", index: one.index, rank: null, state: "plain", pid: one.pid});
  if (whole) {
    for (const index of status.missing) {
      if (!known.has(index)) add("", {role: "rank", index, rank: null, state: "absent"});
    }
  }
  return {whole, hosts: [...hosts.values()]};
}

function worst(states) {
  return WORST.find((state) => states[state]) || "present";
}

function counted(states) {
  return WORST.filter((state) => states[state]).map((state) => states[state] + " " + STATES[state][1]).join(", ");
}

const cells = new Map();
function cell(key, data, text, label, state) {
  let node = cells.get(key);
  if (!node) {
    node = el("button", {type: "button", tabindex: -1});
    cells.set(key, node);
  }
  put(node, text);
  const look = "cell " + state + (chosen === key ? " chosen" : "");
  if (node.className !== look) node.className = look;
  if (node.ariaLabel !== label) node.ariaLabel = label;
  return Object.assign(node, {data, key});
}

function nameOf(place) {
  const rank = place.rank == null || place.rank === place.index ? "" : ", rank " + place.rank;
  return place.role + " #" + place.index + rank;
}

function paceOf(pace) {
  const parts = [pace.step == null ? pace.pings + " signs of life" : "step " + pace.step, +pace.steps_per_s.toPrecision(3) + " per second"];
  if (pace.behind) parts.push(pace.behind + " behind");
  if (pace.section) parts.push("in section '" + pace.section + "'");
  return parts.concat("last sign of life " + span(pace.quiet_ms) + " ago").join(", ");
}

function cellOf(place, numbered) {
  const [sign, word] = STATES[place.state] || ["?", place.state];
  const text = numbered ? sign + place.index : sign;
  return cell(place.key, place, text, nameOf(place) + ": " + word, place.state);
}

function cellOfHost(of) {
  const state = worst(of.states), count = Object.values(of.states).reduce((a, b) => a + b, 0);
  return cell("host " + of.host, of, STATES[state][0] + count, (of.host || "no host") + ": " + counted(of.states), state);
}

function showRanks() {
  const {whole, hosts} = places();
  const count = hosts.reduce((sum, of) => sum + of.places.length, 0);
  const numbered = !whole || count <= NUMBERED;
  const box = $("hosts"), used = new Set(), states = {};
  box.className = !whole ? "dense" : numbered ? "" : count <= SMALL ? "dense small" : "dense tiny";
  box.style.setProperty("--wide", !whole ? "110px" : hosts.length === 1 ? "100%" : numbered ? "440px" : "166px");
  hosts.forEach((of, n) => {
    let line = box.children[n];
    if (!line) {
      line = el("div", {class: "host"}, el("span"), el("div", {class: "cells", role: "group"}));
      box.append(line);
    }
    const name = of.host || "no host yet";
    put(line.firstChild, name);
    line.firstChild.title = name;
    line.lastChild.ariaLabel = name + ": " + counted(of.states);
    const nodes = whole ? of.places.map((place) => cellOf(place, numbered)) : [cellOfHost(of)];
    nodes.forEach((node, i) => {
      used.add(node.key);
      if (line.lastChild.children[i] !== node) line.lastChild.insertBefore(node, line.lastChild.children[i] || null);
    });
    while (line.lastChild.children.length > nodes.length) line.lastChild.lastChild.remove();
    for (const [state, k] of Object.entries(of.states)) states[state] = (states[state] || 0) + k;
  });
  while (box.children.length > hosts.length) box.lastChild.remove();
  for (const key of cells.keys()) if (!used.has(key)) cells.delete(key);
  const first = box.querySelector(".cell");
  if (first && !box.querySelector('.cell[tabindex="0"]')) first.tabIndex = 0;
  draw($("legend"), states, () => WORST.filter((state) => states[state]).reverse().map((state) =>
    el("li", {}, el("i", {class: state}, STATES[state][0]), states[state] + " " + STATES[state][1])));
  $("ranks").hidden = count === 0 && hosts.length === 0;
}

// ---- one of them ----

const isAt = (place) => (one) => one.role === place.role && one.index === place.index;
let full = null; // what /status.json said of the member that was chosen last
async function choose(node) {
  chosen = node.key;
  full = null;
  for (const other of $("hosts").querySelectorAll(".chosen")) other.classList.remove("chosen");
  node.classList.add("chosen");
  describe();
  const all = await ask("status.json", {}).catch(() => null);
  if (all && chosen === node.key) {
    full = all.members.find(isAt(node.data));
    describe();
  }
}

function describe(node = cells.get(chosen)) {
  if (node) put($("one"), sentence(node));
}

function sentence(node) {
  const place = node.data;
  if (place.index === undefined) return node.ariaLabel;
  const one = [...status.members, full || {}].find(isAt(place)) || {};
  const parts = [node.ariaLabel + (one.since_ms == null ? "" : " for " + span(one.since_ms))];
  if (place.host) parts.push("on " + place.host + (one.pid || place.pid ? ", process " + (one.pid || place.pid) : ""));
  if (one.cause && one.cause !== "none") parts.push(one.cause + (one.code ? " " + one.code : ""));
  if (one.waits_at) parts.push("waits in '" + one.waits_at + "'");
  if (one.heard_ms != null && place.state !== "lost") parts.push("heard from " + span(one.heard_ms) + " ago");
  if (one.progress) parts.push(paceOf(one.progress));
  if (one.losses) parts.push("lost " + many(one.losses, "time"));
  if (one.text) parts.push("last words: " + one.text);
  return parts.join("; ");
}

function listen() {
  const box = $("hosts");
  const over = (event) => {
    const node = event.target.closest(".cell");
    if (node) describe(node);
  };
  box.addEventListener("mouseover", over);
  box.addEventListener("mouseleave", () => describe());
  box.addEventListener("focusin", over);
  box.addEventListener("click", (event) => {
    const node = event.target.closest(".cell");
    if (node) choose(node);
  });
  box.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step || !event.target.matches(".cell")) return;
    event.preventDefault();
    const all = [...box.querySelectorAll(".cell")];
    let next = all[all.indexOf(event.target) + step];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { // the same place of the next host
      const line = event.target.closest(".host"), other = step > 0 ? line.nextSibling : line.previousSibling;
      const at = [...event.target.parentNode.children].indexOf(event.target);
      next = other && (other.lastChild.children[at] || other.lastChild.lastChild);
    }
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  for (const id of ["hour", "whole"]) {
    $(id).onclick = () => {
      range = id;
      for (const other of ["hour", "whole"]) $(other).setAttribute("aria-pressed", id === other);
      showTimes();
    };
  }
  const mark = (event) => {
    const node = event.target.closest("[data-says]");
    if (node) put($("mark"), node.dataset.says);
  };
  $("line").addEventListener("mouseover", mark);
  $("line").addEventListener("focusin", mark);
  new ResizeObserver(() => status && showTimes()).observe($("line"));
}

// ---- the timeline ----

function ticks(from, to) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800];
  const step = 1000 * (steps.find((s) => (to - from) / 1000 / s <= 8) || 2592000);
  const found = [];
  for (let at = to - step; at > from; at -= step) found.push([at, "−" + span(to - at).replace(".0 s", " s").replace(/^60 s/, "1 min")]);
  return found;
}

function bands(born) {
  return story.without.map((gap) => ({from: born + gap.from_ms, to: born + gap.to_ms, look: gap.idle ? "band" : "band fewer",
    says: "without all ranks for " + span(gap.to_ms - gap.from_ms) + ": " + incidents.get(gap.number)?.sentence}));
}

function showTimes() {
  const width = $("line").clientWidth || 600, now = asked;
  const list = [...incidents.values()];
  const born = list.length ? Math.min(list[0].at, now - story.age_ms) : now - 60000;
  const from = Math.min(range === "hour" ? Math.max(born, now - HOUR_MS) : born, now - 5000);
  const x = (at) => Math.round(10 * (Math.max(0, at - from) / (now - from)) * (width - 4)) / 10 + 2;
  const focus = document.activeElement && document.activeElement.dataset.number;
  const drawing = svg("svg", {role: "group", "aria-label": "incidents over time, from " + date(from) + " until now"});
  drawing.append(svg("rect", {class: "base", x: x(born), y: 34, width: width - 2 - x(born), height: 16}));
  for (const [at, text] of ticks(from, now)) {
    drawing.append(svg("line", {x1: x(at), x2: x(at), y1: 50, y2: 56}), svg("text", {x: x(at), y: 68, "text-anchor": "middle"}, text));
  }
  for (const band of bands(now - story.age_ms)) {
    if (band.to < from) continue;
    drawing.append(svg("rect", {class: band.look, x: x(band.from), y: 34, width: Math.max(2, x(band.to) - x(band.from)), height: 16,
      "data-says": band.says}));
  }
  let labelled = -99;
  for (const one of list) {
    if (one.at < from) continue;
    const [sign, tone] = KINDS[one.what] || ["?", "calm"], sealed = tone === "calm", at = x(one.at);
    const says = date(one.at) + ": " + one.sentence;
    const group = svg("g", {tabindex: 0, role: "img", "aria-label": says, "data-says": says, "data-number": one.number});
    if (sealed) {
      group.append(svg("line", {class: "seal", x1: at, x2: at, y1: 24, y2: 50}), svg("rect", {class: "hit", x: at - 4, y: 12, width: 8, height: 40}));
      if (at > labelled + 24) {
        group.append(svg("text", {x: at, y: 21, "text-anchor": at > width - 12 ? "end" : at < 12 ? "start" : "middle", class: "calm"}, "g" + one.generation));
        labelled = at;
      }
    } else {
      group.append(svg("text", {x: at, y: 46, "text-anchor": "middle", class: "sign " + tone}, sign), svg("rect", {class: "hit", x: at - 6, y: 34, width: 12, height: 16}));
    }
    drawing.append(group);
  }
  $("line").replaceChildren(drawing);
  if (focus) drawing.querySelector('[data-number="' + focus + '"]')?.focus();
  document.querySelector(".range").hidden = born >= now - HOUR_MS;
}

// ---- lists ----

function showIncidents() {
  const list = [...incidents.values()].reverse();
  draw($("incidents").querySelector("tbody"), list.map((one) => [one.number, one.sentence, Math.round(one.at / 1000)]), () => list.map((one) => {
    const [sign, tone] = KINDS[one.what] || ["?", "calm"];
    return el("tr", {}, el("td", {}, date(one.at)), el("td", {}, el("i", {class: tone, "aria-hidden": true}, sign), one.sentence));
  }));
}

function roundText(round) {
  const all = round.absent || round.missing || (round.first_missing == null ? [] : [round.first_missing]);
  const others = round.expected - round.arrived - all.length;
  const who = all.length ? "; waits for " + ranges(all) + (others > 0 ? " and " + others + " more" : "") : "";
  const since = round.since_ms == null ? "" : ", open for " + span(round.since_ms);
  const awaited = round.awaited ? "; " + many(round.awaited, "rank") + " being replaced for " + span(round.awaited_ms) : "";
  return "'" + round.name + "' (" + round.number + "): " + round.arrived + " of " + round.expected + since + who + awaited;
}

function preemption() {
  const now = status.preemption, found = [];
  for (const one of now.notices) {
    const left = one.left_ms >= 0 ? span(one.left_ms) + " left" + (one.assumed ? ", as is assumed" : "") : "its deadline passed " + span(-one.left_ms) + " ago";
    found.push((one.level === "certain" ? "notice for " : "advisory notice for ") + (one.index === null ? "the whole job" : "#" + one.index) + ": " +
      left + "; " + (one.reason || "no reason is given") + " (" + (one.source || "by hand") + (one.host ? ", " + one.host : "") + ")");
  }
  if (now.state !== "none" && (now.notices.length || now.state === "agreed")) {
    found.push("step " + now.agreed_step + " is agreed (" + now.state + "): saved by " + now.saved + " of " + now.of +
      (now.missing.length ? "; not yet by " + ranges(now.missing) : ""));
  }
  return found;
}

function closures(one) {
  const told = (head, of, tail) => of ? [head + ": closure " + of.closure + " " + of.function + ", for " + span(of.ms) + tail] : [];
  return told("oldest", one.oldest, ", waits for " + one.oldest?.waits_for).concat(told("longest", one.longest, ", on worker " + one.longest?.worker));
}

function show() {
  showHead();
  const known = facts();
  draw($("facts"), known, () => known.map(([name, value, more]) =>
    el("li", {}, el("small", {}, name), el("br"), value + " ", el("small", {}, more))));
  showRanks();
  if (chosen && !$("hosts").matches(":hover")) describe();
  showTimes();
  showIncidents();
  fill("notices", preemption(), item);
  fill("rounds", status.rounds.map(roundText), item);
  fill("stragglers", status.members.filter((one) => (one.progress || {}).straggler).map((one) =>
    nameOf(one) + " on " + one.host + ": its work in a step takes " + one.progress.slower + " times the median; " + paceOf(one.progress)), item);
  const hosts = status.hosts.filter((one) => one.losses + one.rank_losses > 0).sort((a, b) => b.losses - a.losses || b.rank_losses - a.rank_losses);
  fill("losses", hosts.slice(0, 50), (one) => row(one.host, one.members, one.rank_losses, one.losses));
  fill("clusters", status.clusters, (one) => row(one.name, one.queued, one.in_flight, one.present + " of " + one.workers, one.per_second, one.failures));
  draw($("clusters").querySelector("ul"), status.clusters.map(closures), () => status.clusters.flatMap(closures).map(item));
  fill("jobs", status.jobs.filter((one) => one.job !== status.job), (one) =>
    el("li", {}, el("a", {href: "?job=" + encodeURIComponent(one.job)}, one.job), " " + one.present + " of " + one.size));
}

listen();
refresh();
