// Browsers refuse web workers on pages that are opened from the file system. There the search runs
// in a hidden frame instead, which exchanges the same messages with the page.
if (location.protocol === "file:") {
  window.Worker = class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const script = new URL(url, document.baseURI).href;
      const bridge =
        "window.postMessage = (data) => parent.postMessage(data, '*');" +
        "window.importScripts = (...urls) => urls.reduce((before, next) => before.then(() =>" +
        "new Promise((done) => { const tag = document.createElement('script'); tag.src = next;" +
        "tag.onload = done; document.body.append(tag); })), Promise.resolve());";
      this.frame.srcdoc =
        `<body><script>${bridge}<\/script><script src="${script}"><\/script></body>`;
      this.frame.addEventListener("load", () => {
        this.loaded = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      if (!this.loaded) return void this.waiting.push(data);
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
