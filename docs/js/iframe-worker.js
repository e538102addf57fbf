/* Search when a page is opened as a file. Browsers start no worker from a file, so the search's script runs in a hidden
   frame instead; messages between both go as if it were a worker. Served by a web server, nothing happens here. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      this.started = new Promise((started) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          const load = (source) => {
            const script = inside.document.createElement("script");
            script.src = source;
            return new Promise((loaded, failed) => {
              script.addEventListener("load", loaded);
              script.addEventListener("error", failed);
              inside.document.body.append(script);
            });
          };
          inside.importScripts = (...sources) =>
            sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          load(address).then(() => started(inside));
        }, { once: true });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.started.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
