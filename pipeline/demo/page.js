// A word shows its attention while it is pointed at or has the focus; a click keeps it.
"use strict";
(() => {
  let kept = null;

  const pictures = (word) => word.closest(".lab-answer").querySelectorAll(".lab-heat");

  function show(word) {
    const { heat, heatAfter = heat } = word.dataset; // undefined without attention
    pictures(word).forEach((picture, side) => {
      if (heat) picture.src = side ? heatAfter : heat;
      picture.hidden = !heat;
    });
  }

  function clear(word) {
    for (const picture of pictures(word)) picture.hidden = true;
    if (kept?.isConnected && kept !== word) show(kept);
  }

  function keep(word) {
    const again = kept === word;
    kept?.setAttribute("aria-pressed", "false");
    kept = again ? null : word;
    word.setAttribute("aria-pressed", String(!again));
    again ? clear(word) : show(word);
  }

  for (const [event, act] of [["mouseover", show], ["focusin", show], ["mouseout", leave], ["focusout", leave], ["click", keep]]) {
    document.addEventListener(event, ({ target }) => {
      const word = target.closest?.(".lab-word");
      if (word) act(word);
    });
  }

  function leave(word) {
    if (word !== kept) clear(word);
  }
})();
