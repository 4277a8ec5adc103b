// Search in pages that are opened from a disk: browsers start no worker there, so its script runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.scope = new Promise((ready) => {
        const start = () => {
          const scope = frame.contentWindow;
          const script = scope.document.createElement("script");
          scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          script.addEventListener("load", () => ready(scope));
          script.src = url;
          scope.document.body.append(script);
        };
        frame.addEventListener("load", start, { once: true });
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      (await this.scope).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
