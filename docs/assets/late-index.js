// The search index is the heaviest file of a page. Material asks for it at once; here the request
// waits until the search field is used.
{
  const { open, send } = XMLHttpRequest.prototype;
  const used = new Promise((resolve) => {
    addEventListener("focusin", ({ target }) => target.matches(".md-search__input") && resolve());
  });
  XMLHttpRequest.prototype.open = function (method, url, ...others) {
    this.waits = /search_index\.json$/.test(url);
    return open.call(this, method, url, ...others);
  };
  XMLHttpRequest.prototype.send = function (body) {
    if (this.waits) used.then(() => send.call(this, body));
    else send.call(this, body);
  };
}
