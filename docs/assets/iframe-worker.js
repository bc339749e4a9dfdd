// Browsers start no Worker from a file on disk. Where the site is opened that way, the search runs in a hidden frame
// instead; the theme looks for this name to find its files.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inner = this.frame.contentWindow;
    inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    inner.importScripts = (...files) => files.reduce((before, file) => before.then(() => load(inner, file)), Promise.resolve());
    this.ready = load(inner, url);
  }

  postMessage(data) {
    this.ready.then(() => {
      const inner = this.frame.contentWindow;
      inner.dispatchEvent(new inner.MessageEvent("message", { data }));
    });
  }

  terminate() {
    this.frame.remove();
  }
}

function load(inner, url) {
  return new Promise((done, failed) => {
    const script = inner.document.createElement("script");
    script.src = url;
    script.onload = done;
    script.onerror = failed;
    inner.document.body.append(script);
  });
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
