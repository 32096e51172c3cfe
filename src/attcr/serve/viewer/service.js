// Every request to the service, with the API key where there is one, and its refusals in words.

export const BASE = new URL("../", document.baseURI).href;
const STORED = "attcr-key";
const OVER = ["successful", "failed", "dismissed"];

export const over = (job) => OVER.includes(job.status);

export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (value) => sessionStorage.setItem(STORED, value),
  forget: () => sessionStorage.removeItem(STORED),
};

// The headers of a request to the service; another origin never gets the key.
export function headers(url = BASE) {
  const own = new URL(url, BASE).origin === new URL(BASE).origin;
  return own && key.get() ? { "X-API-Key": key.get() } : {};
}

const WORDS = {
  0: "The service cannot be reached. Check that it still runs, then try again.",
  401: "The service does not know this API key. Check it, and enter it again.",
  413: "The file is larger than the service takes.",
  429: "You have too many unfinished jobs: wait until one ends, or cancel one.",
  503: "The service is not ready. Try again in a moment.",
};

function refusal(status, text) {
  let detail = "";
  try {
    detail = JSON.parse(text).detail ?? "";
  } catch {
    // no problem document: a proxy may have answered
  }
  if (status === 401) detail = ""; // it speaks of headers
  return new Refusal(status, detail || WORDS[status] || `The service answered with code ${status}.`);
}

async function ask(path, { json, ...options } = {}) {
  const url = new URL(path, BASE);
  const sent = { ...headers(url), ...(json === undefined ? {} : { "Content-Type": "application/json" }) };
  let answer;
  try {
    answer = await fetch(url, { ...options, headers: sent, body: json === undefined ? undefined : JSON.stringify(json) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, WORDS[0]);
  }
  if (!answer.ok) throw refusal(answer.status, await answer.text());
  return answer;
}

const read = async (path, options) => (await ask(path, options)).json();

export const process = () => read("processes/restore");
export const jobs = async () => (await read("jobs?limit=100")).jobs.filter((job) => job.status !== "dismissed");
export const status = (id) => read(`jobs/${id}`);
export const results = async (id) => Object.keys(await read(`jobs/${id}/results`));
export const point = (id, { lng, lat }, signal) => read(`jobs/${id}/point?lon=${lng}&lat=${lat}`, { signal });
export const dismiss = (id) => read(`jobs/${id}`, { method: "DELETE" });
export const sample = () => ask("sample.tif");
export const execute = (inputs) => read("processes/restore/execution", { method: "POST", json: { inputs } });

// Addresses are made here: behind a proxy the service may not know its own.
export const resultAddress = (id, name) => new URL(`jobs/${id}/results/${name}`, BASE).href;

export async function info(id) {
  const told = await read(`jobs/${id}/info`);
  for (const [layer, address] of Object.entries(told.tiles)) {
    told.tiles[layer] = `${BASE}jobs/${id}/tiles/${layer}/{z}/{x}/{y}.png${new URL(address).search}`;
  }
  return told;
}

// Send a file; `tell` hears the part that is sent. XMLHttpRequest, for fetch says nothing of how far it is.
export function upload(file, name, { tell, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", new URL(`uploads?name=${encodeURIComponent(name)}`, BASE));
    for (const [header, value] of Object.entries(headers())) request.setRequestHeader(header, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => event.lengthComputable && tell(event.loaded / event.total);
    request.onload = () =>
      request.status < 300 ? resolve(JSON.parse(request.responseText).id) : reject(refusal(request.status, request.responseText));
    request.onerror = () => reject(new Refusal(0, WORDS[0]));
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// Follow a job to its end by server-sent events, read with fetch since EventSource sends no key. `tell` hears every
// status; gives the last one. A connection that breaks is begun again.
export async function follow(id, { tell, signal }) {
  let told = await status(id);
  tell(told);
  for (let wait = 500; !over(told); wait = Math.min(wait * 2, 10000)) {
    try {
      for await (const event of events(`jobs/${id}/events`, signal)) {
        told = { ...told, ...event };
        tell(told);
        wait = 500;
      }
    } catch (error) {
      if (error.name === "AbortError" || [401, 404, 410].includes(error.status)) throw error;
    }
    if (over(told)) break;
    await new Promise((resolve) => setTimeout(resolve, wait));
    signal.throwIfAborted();
    told = await status(id);
    tell(told);
  }
  return told;
}

async function* events(path, signal) {
  const answer = await ask(path, { signal });
  let text = "";
  const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await lines.read();
    if (done) return;
    text = (text + value).replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length) yield JSON.parse(data.join("\n"));
    }
  }
}

// Save a result under a name. With a key it comes by fetch, since a link sends no header.
export async function save(href, name) {
  const link = document.createElement("a");
  link.download = name;
  link.href = href;
  if (key.get()) link.href = URL.createObjectURL(await (await ask(href)).blob());
  link.click();
  if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
