"use strict";

// The search of the theme runs in a worker. Between the two stands this script.

/** What the worker is told: its parser of queries ends a word at each hyphen, and scores-not-scaled is one word here.
 *  Of two hyphens that are escaped it reads the first query, of one the second that it makes of that. */
function whole(message) {
  return message.type === 2 ? { ...message, data: message.data.replace(/(?<=\S)-(?=\S)/g, "\\\\\\-") } : message;
}

// A browser starts no worker from a file. There a frame takes its place: it runs the same script, and what the two
// tell each other are events.
class Frame extends EventTarget {
  constructor(address) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inner = frame.contentWindow;
    this.inner.postMessage = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
    this.ready = new Promise((done) => {
      const script = frame.contentDocument.createElement("script");
      script.src = address;
      script.addEventListener("load", done);
      frame.contentDocument.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    this.inner.frameElement.remove();
  }
}

const fromFile = location.protocol === "file:";
window.Worker = class extends (fromFile ? Frame : Worker) {
  postMessage(message) {
    super.postMessage(whole(message));
  }
};
if (fromFile) window.IFrameWorker = window.Worker;
