// Browsers start no worker from a file. So that search works on pages opened from a folder, a hidden
// frame runs the worker's script instead, with the two ends of postMessage joined by hand.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      frame.title = "Search";
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => deliver(this, data);
      this.ready = new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${url}`));
        script.src = url;
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => deliver(this.inside, data));
    }
  };

  function deliver(target, data) {
    target.dispatchEvent(new MessageEvent("message", { data }));
  }
}
