// Goes through Airflow's login and back to this address, with what follows the "#". In a frame the top window goes, if allowed.
const login = document.getElementById("login");

function leave(place) {
  const target = new URL(login.href);
  target.searchParams.set("next", place.location.href);
  place.location.replace(target);
}

try {
  leave(window.top);
} catch {
  leave(window);
}
