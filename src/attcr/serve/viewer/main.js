// The page: files that come in, jobs, and what is shown of them.

import { dropped, scenes } from "./files.js";
import { Inspector } from "./inspector.js";
import { JobList } from "./jobs.js";
import { Swipe } from "./maps.js";
import * as service from "./service.js";

const $ = (id) => document.getElementById(id);
const POLL = 4000; // milliseconds between looks at jobs that are not followed
const LAYERS = { restored: "Restored scene", quality: "Quality", item: "How it was made", dates: "Dates", spread: "Uncertainty" };

const WORDS = {
  "weights none": "none: fill from references alone",
  "mask none": "none: all of it may be cloud",
  "sensor s2-l2a": "Sentinel-2 L2A, until January 2022",
  "sensor s2-l2a-n0400": "Sentinel-2 L2A, since 2022 or processed anew",
  "sensor s2-l1c": "Sentinel-2 L1C, until January 2022",
  "sensor s2-l1c-n0400": "Sentinel-2 L1C, since 2022 or processed anew",
  "sensor landsat-c2-l1": "Landsat 8 or 9, top of the atmosphere",
  "sensor landsat-c2-l2": "Landsat 8 or 9, surface reflectance",
  "sensor landsat-tm-c2-l2": "Landsat 4, 5 or 7, surface reflectance",
  "sensor rgb8": "A picture of 8 bits",
  "sensor picture": "A picture",
  "sensor reflectance": "Reflectance of another satellite",
};
const CLOUDED = 0.1; // the part of a scene that is left as cloud from which another date is asked for
const sent = new Map(); // the inputs of the jobs of this page, to try again without sending anything again
const OPTIONS = ["weights", "sensor", "mask"];

let shown = null; // what the service told about the job on the map
let following = null; // {id, abort} of the upload or job whose progress is shown

const swipe = new Swipe({
  before: $("before"),
  after: $("after"),
  labels: $("labels"),
  line: $("swipe-line"),
  slider: $("swipe"),
  inspect: (place) => shown && inspector.at(shown, place),
});
const inspector = new Inspector({ panel: $("inspector"), place: $("inspector-place"), body: $("inspector-body"), swipe, refuse, announce });
const list = new JobList({ list: $("jobs"), none: $("no-jobs"), open, remove });

function announce(text) {
  $("live").textContent = text;
}

function refuse(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    askForKey();
    if (!service.key.get()) return; // the field says it
  } else if (!(error instanceof service.Refusal)) console.error(error);
  $("message-text").textContent = error.message;
  $("message").hidden = false;
}

function clearMessage() {
  $("message").hidden = true;
}

// The key: asked for only when the service does.

function askForKey() {
  $("key-section").hidden = $("key-form").hidden = false;
  $("forget-key").hidden = !service.key.get();
  $("key").focus();
}

$("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  service.key.set($("key").value.trim());
  $("key").value = "";
  clearMessage();
  if (await refresh()) {
    $("key-form").hidden = true;
    $("forget-key").hidden = false;
    announce("The key is taken.");
    $("choose").focus();
  }
});

$("forget-key").addEventListener("click", () => {
  service.key.forget();
  location.reload();
});

// Progress: a bar for the eye; stages and quarters for the ear.

let spoken = "";

function tell(name, text, percent) {
  $("progress-section").hidden = false;
  $("progress-name").textContent = name;
  $("progress-text").textContent = text;
  if (percent === null) $("progress").removeAttribute("value");
  else $("progress").value = percent;
  const quarter = `${name}: ${text.replace(/[:,].*/, "")}${percent ? `, ${Math.floor(percent / 25) * 25} percent` : ""}`;
  if (quarter !== spoken) announce((spoken = quarter));
}

function endProgress() {
  following = null;
  $("progress-section").hidden = true;
}

$("cancel").addEventListener("click", async () => {
  const { id, abort } = following ?? {};
  abort?.abort();
  endProgress();
  announce("Cancelled.");
  if (id) await service.dismiss(id).catch(refuse);
  await refresh();
});

// A file comes in: sent, made a job, followed to its end.

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

async function send(file, name, abort) {
  return service.upload(file, name, {
    signal: abort.signal,
    tell: (part) => tell(name, `sending, ${Math.floor(part * 100)} % of ${megabytes(file.size)}`, part * 100),
  });
}

async function restore(scene) {
  clearMessage();
  const abort = new AbortController();
  following?.abort.abort();
  following = { id: null, abort };
  tell(scene.name, "sending", null);
  try {
    const parts = [];
    for (const { name, read } of scene.parts) parts.push({ upload: await send(await read(), name, abort) });
    const inputs = { scene: parts.length > 1 ? parts : parts[0] };
    for (const option of OPTIONS) if ($(option).value) inputs[option] = $(option).value;
    const references = [];
    for (const other of $("references").files) references.push({ upload: await send(other, other.name, abort) });
    if (references.length) inputs.references = references;
    $("references").value = ""; // they belong to this scene
    abort.signal.throwIfAborted();
    return await begin(inputs);
  } catch (error) {
    refuse(error);
    if (following?.abort === abort) endProgress();
    return null;
  }
}

async function begin(inputs) {
  const job = await service.execute(inputs);
  sent.set(job.jobID, inputs);
  list.put(job);
  return job;
}

async function take(files) {
  let last = null;
  try {
    const found = await scenes(await files);
    if (!found.length) throw new service.Refusal(415, "There is no raster among these files: drop GeoTIFF, JPEG 2000, PNG or JPEG files, a SAFE folder, or a product as it was downloaded.");
    for (const scene of found) last = (await restore(scene)) ?? last;
  } catch (error) {
    refuse(error instanceof service.Refusal ? error : new service.Refusal(415, error.message));
  }
  if (last) await follow(last);
}

$("sample").addEventListener("click", () => {
  const read = async () => (await service.sample()).blob();
  take(Promise.resolve([{ path: "sample.tif", read }]));
});

async function follow(job) {
  const abort = new AbortController();
  let previewed = false;
  following?.abort.abort();
  following = { id: job.jobID, abort };
  try {
    const ended = await service.follow(job.jobID, {
      signal: abort.signal,
      tell: (told) => {
        list.put(told);
        if (told.status === "running" && !previewed) {
          previewed = true;
          preview(told);
        }
        if (!service.over(told)) tell(told.title, told.message || told.status, told.status === "running" ? told.progress : null);
      },
    });
    if (ended.status === "successful") {
      tell(ended.title, "done, opening it", 100);
      await open(ended);
    } else if (ended.status === "failed") explain(ended);
    if (following?.abort === abort) endProgress();
  } catch (error) {
    refuse(error);
    if (following?.abort === abort) endProgress();
  }
}

// Say why a job failed: where its product is not known, ask for it; where another option would help, show the options.
function explain(job) {
  const choices = [...$("sensor").options].map(({ value }) => value).filter((name) => name && new RegExp(`[ ,]${name}[,. ]`).test(job.message));
  if (job.message.includes("`sensor`") && choices.length && sent.has(job.jobID)) return which(job, choices);
  refuse(new service.Refusal(422, `${job.title}: ${job.message}`));
  if (OPTIONS.some((option) => job.message.includes(`\`${option}\``))) $("options").open = true;
}

// Ask which product a scene is, and try again with the files that are there.
function which(job, choices) {
  $("product-text").textContent = `${job.title} does not say which product it is, and its numbers mean other things in each.`;
  $("product").replaceChildren(...choices.map((name) => new Option(WORDS[`sensor ${name}`] ?? name, name)));
  const dialog = $("which");
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.addEventListener("close", async () => {
    if (dialog.returnValue !== "yes") return refuse(new service.Refusal(422, `${job.title}: ${job.message}`));
    try {
      const again = await begin({ ...sent.get(job.jobID), sensor: $("product").value });
      service.dismiss(job.jobID).then(refresh, () => {});
      await follow(again);
    } catch (error) {
      refuse(error);
    }
  }, { once: true });
}

$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const files = [...$("file").files].map((file) => ({ path: file.name, read: async () => file, file }));
  $("file").value = "";
  take(files);
});

let depth = 0; // dragenter and dragleave come for every element on the way

const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");

addEventListener("dragenter", (event) => {
  if (!carriesFiles(event)) return;
  depth += 1;
  $("drop-veil").hidden = false;
});
addEventListener("dragleave", (event) => {
  if (carriesFiles(event) && --depth <= 0) $("drop-veil").hidden = true;
});
addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "copy";
});
addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth = 0;
  $("drop-veil").hidden = true;
  take(dropped(event.dataTransfer));
});

// A job on the map.

async function open(job) {
  try {
    const [info, results] = await Promise.all([service.info(job.jobID), service.results(job.jobID)]);
    await show(job, info);
    legend(info.classes);
    downloads(job, results);
    compared(true);
    list.mark(job.jobID);
    location.hash = `job=${job.jobID}`;
    showQuality();
    offerDates(job, info.classes);
    announce(`${job.title} is shown, before and after.`);
  } catch (error) {
    refuse(error);
  }
}

// Show a scene whose job is not over, as it came.
async function preview(job) {
  try {
    const info = await service.info(job.jobID);
    if (info.layers.result || following?.id !== job.jobID) return;
    compared(false);
    await show(job, info);
    list.mark(job.jobID);
  } catch {
    // what cannot be shown before its time is told of at the end
  }
}

async function show(job, info) {
  const same = shown?.jobID === info.jobID;
  inspector.close();
  shown = info;
  $("welcome").hidden = true;
  $("scene-name").textContent = info.georeferenced ? job.title : `${job.title} (without a place on Earth)`;
  const shows = Object.keys(info.shows);
  for (const option of $("colours").options) option.hidden = option.disabled = !shows.includes(option.value);
  if (!shows.includes($("colours").value)) $("colours").value = "true";
  await swipe.show(info, !same, $("colours").value);
}

function compared(visible) {
  for (const id of ["swipe", "swipe-line", "before-tag", "after-tag", "layers"]) $(id).hidden = !visible;
}

function close() {
  shown = null;
  swipe.clear();
  inspector.close();
  compared(false);
  list.mark(null);
  $("welcome").hidden = false;
  $("scene-name").textContent = location.hash = "";
}

// Where much is still cloud, another date would help.
function offerDates(job, classes) {
  const total = classes.reduce((sum, { opacity, pixels }) => sum + (opacity ? pixels : 0), 0);
  const left = classes.find(({ name }) => name === "cloud left as it came")?.pixels ?? 0;
  $("dates").hidden = !(left > CLOUDED * total && sent.has(job.jobID));
  $("dates-text").textContent = `${percent(left / total)} is still cloud.`;
  $("add-date").onclick = () => $("date").click();
  $("date").onchange = async () => {
    const abort = new AbortController();
    const { references = [], ...inputs } = sent.get(job.jobID);
    const more = [];
    try {
      for (const file of $("date").files) more.push({ upload: await send(file, file.name, abort) });
      $("date").value = "";
      await follow(await begin({ ...inputs, references: [...references, ...more] }));
    } catch (error) {
      refuse(error);
      endProgress();
    }
  };
}

$("colours").addEventListener("change", () => swipe.colours($("colours").value));

const percent = (part) => (part < 0.001 ? "< 0.1 %" : `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`);

// The classes that the scene has, with their shares of its pixels.
function legend(classes) {
  const total = classes.reduce((sum, { opacity, pixels }) => sum + (opacity ? pixels : 0), 0);
  $("legend").replaceChildren(
    ...classes.filter(({ opacity, pixels }) => opacity && pixels).map(({ name, colour, pixels }) => {
      const line = document.createElement("li");
      const share = document.createElement("span");
      share.className = "share";
      share.textContent = percent(pixels / total);
      line.append(swatch(colour), name, share);
      return line;
    }),
  );
}

function swatch(colour) {
  const square = document.createElement("span");
  square.className = "swatch";
  square.style.backgroundColor = colour;
  return square;
}

function downloads(job, results) {
  const lines = Object.entries(LAYERS).filter(([name]) => results.includes(name)).map(([name, text]) => {
    const line = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = text;
    const stem = job.title.replace(/\.[^.]*$/, "");
    button.addEventListener("click", () =>
      service.save(service.resultAddress(job.jobID, name), `${stem}_${name}.${name === "item" ? "json" : "tif"}`).catch(refuse),
    );
    line.append(button);
    return line;
  });
  $("downloads").replaceChildren(...lines);
}

function showQuality() {
  const [on, percent] = [$("quality").checked, $("opacity").value];
  $("opacity").disabled = !on;
  $("opacity-value").textContent = `${percent} %`;
  swipe.quality(on, percent / 100);
}

$("quality").addEventListener("change", showQuality);
$("opacity").addEventListener("input", showQuality);
$("inspector-close").addEventListener("click", () => {
  inspector.close();
  swipe.after.getCanvas().focus();
});
$("message-close").addEventListener("click", clearMessage);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("confirm").open) inspector.close();
});

// Jobs, and what the service offers.

function confirmed(text) {
  const dialog = $("confirm");
  $("confirm-text").textContent = text;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

async function remove(job) {
  if (job.status === "successful" && !(await confirmed(`Remove ${job.title} and its results from the service?`))) return;
  try {
    await service.dismiss(job.jobID);
    if (following?.id === job.jobID) {
      following.abort.abort();
      endProgress();
    }
    if (shown?.jobID === job.jobID) close();
    announce(`${job.title} is removed.`);
  } catch (error) {
    refuse(error);
  }
  await refresh();
  $("jobs-heading").focus();
}

async function refresh() {
  try {
    list.replace(await service.jobs());
    return true;
  } catch (error) {
    refuse(error);
    return false;
  }
}

function offer(id, values) {
  for (const value of values) $(id).add(new Option(WORDS[`${id} ${value}`] ?? value, value));
}

async function start() {
  swipe.cut();
  try {
    const { inputs } = await service.process();
    offer("weights", inputs.weights.schema.enum);
    offer("sensor", inputs.sensor.schema.enum);
    offer("mask", inputs.mask.schema.oneOf[0].enum);
  } catch (error) {
    refuse(error);
  }
  if (!(await refresh())) return;
  if (service.key.get()) {
    $("key-section").hidden = $("forget-key").hidden = false;
    $("key-form").hidden = true;
  }
  const [, linked] = /^#job=(\w+)$/.exec(location.hash) ?? [];
  const job = linked && (await service.status(linked).catch(refuse));
  if (job?.status === "successful") await open(job);
  const unfinished = list.jobs.find((job) => !service.over(job));
  if (unfinished) follow(unfinished);
}

setInterval(() => {
  const others = list.jobs.some((job) => !service.over(job) && job.jobID !== following?.id);
  if (others && !document.hidden) refresh();
}, POLL);

start();
