// Values without a mouse: a tap on a figure, or the arrow keys while it has the focus, say below it what pointing shows.
for (const box of document.querySelectorAll("[data-says]")) {
  const spots = [...box.querySelectorAll("svg title")].map((title) => title.parentNode)
    .concat([...box.querySelectorAll("[title]")]);
  const said = box.nextElementSibling;
  let at = -1;
  const say = (spot) => {
    at = spots.indexOf(spot);
    said.textContent = spot.getAttribute("title") || spot.querySelector("title").textContent;
  };
  box.addEventListener("click", (event) => {
    const spot = spots.find((spot) => spot.contains(event.target));
    if (spot) say(spot);
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !spots.length) return;
    event.preventDefault();
    say(spots[(at + step + spots.length) % spots.length]);
    spots[at].scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}
