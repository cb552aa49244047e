// Makes a button with data-address copy a link to what the page shows, and say if copying worked. On a Hugging Face
// Space the link is to the outer page (data-address), because visitors do not see the frame's address. Before a run
// the link is to the form's settings, which the forecast above Run holds as a query.
(() => {
  const copy = async text => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {  // the browser gave no permission, or the page is not served over https
      const field = Object.assign(document.createElement('textarea'), { value: text });
      document.body.append(field);
      field.select();
      const done = document.execCommand('copy');
      field.remove();
      return done;
    }
  };
  document.addEventListener('click', async event => {
    const button = event.target.closest?.('button[data-address]');
    if (!button) return;
    const here = new URL(location), outer = button.dataset.address, given = here.searchParams;
    const asked = !given.has('tab') && !given.has('run') && document.querySelector('#forecast [data-query]')?.dataset.query;
    for (const name of [...given.keys()]) if (name.startsWith('__') || asked) given.delete(name);
    for (const [name, value] of new URLSearchParams(asked || '')) given.set(name, value);
    const before = button.dataset.words ??= button.textContent;
    button.textContent = (await copy(outer ? outer + here.search : here.href)) ? button.dataset.done : button.dataset.failed;
    setTimeout(() => { button.textContent = before; }, 2000);
    button.focus();
  });
})();
