// Through Airflow's login and back, with what follows the "#". A frame takes the window around it along, if it may.
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
