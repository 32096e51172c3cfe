// The list of jobs, newest first. A line keeps its buttons while its text changes, so that focus stays.

import { over } from "./service.js";

const STATES = { accepted: "waiting", running: "running", successful: "done", failed: "failed" };

function button(text, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

function paragraph(name, text) {
  const made = document.createElement("p");
  made.className = name;
  made.textContent = text;
  return made;
}

function stateOf(job) {
  const time = new Date(job.created).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (job.status === "failed") return `failed: ${job.message}`;
  if (job.status === "running") return `${job.progress} %, ${job.message}`;
  return [STATES[job.status] ?? job.status, job.weights, time].filter(Boolean).join(" · ");
}

export class JobList {
  constructor({ list, none, open, remove }) {
    Object.assign(this, { list, none, open, remove, jobs: [], lines: new Map(), shown: null });
  }

  replace(jobs) {
    this.jobs = jobs;
    this.draw();
  }

  put(job) {
    const at = this.jobs.findIndex((one) => one.jobID === job.jobID);
    if (job.status === "dismissed") this.jobs = this.jobs.filter((one) => one.jobID !== job.jobID);
    else if (at < 0) this.jobs.unshift(job);
    else this.jobs[at] = job;
    this.draw();
  }

  mark(id) {
    this.shown = id;
    this.draw();
  }

  draw() {
    this.none.hidden = this.jobs.length > 0;
    const kept = new Map();
    const lines = this.jobs.map((job) => {
      const drawn = `${job.status}${over(job)}${this.shown === job.jobID}`;
      let line = this.lines.get(job.jobID);
      if (line?.dataset.drawn !== drawn) {
        line = this.line(job);
        line.dataset.drawn = drawn;
      }
      const state = line.querySelector(".state");
      if (state.textContent !== stateOf(job)) state.textContent = stateOf(job);
      kept.set(job.jobID, line);
      return line;
    });
    this.lines = kept;
    if (lines.length !== this.list.children.length || lines.some((line, at) => this.list.children[at] !== line)) {
      this.list.replaceChildren(...lines);
    }
  }

  line(job) {
    const line = document.createElement("li");
    line.classList.toggle("open", this.shown === job.jobID);
    const buttons = document.createElement("div");
    buttons.className = "buttons";
    if (job.status === "successful") {
      const show = button("Show", `Show ${job.title} on the map`, () => this.open(job));
      if (this.shown === job.jobID) show.setAttribute("aria-current", "true");
      buttons.append(show);
    }
    const word = over(job) ? "Remove" : "Cancel";
    buttons.append(button(word, `${word} ${job.title}`, () => this.remove(job)));
    line.append(paragraph("file-name", job.title), paragraph(`state ${job.status}`, ""), buttons);
    if (job.status === "successful" && job.notes?.length) line.append(paragraph("notes", job.notes.join(" ")));
    return line;
  }
}
