// Copies text, and says on the button whether that worked. A button with data-address copies the link to what is shown: on
// a Space the address of the outer page (data-address), because a visitor does not see that of the frame.
window.copying = (() => {
  const say = (button, words) => {
    const before = button.dataset.words ??= button.textContent;
    button.textContent = words;
    setTimeout(() => { button.textContent = before; }, 2000);
  };
  const copy = async (button, text) => {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // no permission, or a page that is not served over https
      const field = Object.assign(document.createElement('textarea'), { value: text });
      document.body.append(field);
      field.select();
      done = document.execCommand('copy');
      field.remove();
    }
    say(button, done ? button.dataset.done : button.dataset.failed);
    button.focus();
    return done;
  };
  document.addEventListener('click', event => {
    const button = event.target.closest?.('button[data-address]');
    if (!button) return;
    const here = new URL(location), outer = button.dataset.address;
    for (const name of [...here.searchParams.keys()]) if (name.startsWith('__')) here.searchParams.delete(name);
    copy(button, outer ? outer + here.search : here.href);
  });
  return { say, copy };
})();
