// A list of what somebody saved under names, kept in this browser.

const MAXIMUM_ENTRIES = 30;

/** Opens the list under ``key``; of each entry, ``content`` names the part beside its name. */
export function openSavedList(key, content) {
  function read() {
    try {
      const found = JSON.parse(localStorage.getItem(key) ?? "[]");
      return Array.isArray(found) ? found.filter((entry) => typeof entry?.name === "string" && entry[content]) : [];
    } catch {
      return [];
    }
  }

  function write(entries) {
    try {
      localStorage.setItem(key, JSON.stringify(entries.slice(0, MAXIMUM_ENTRIES)));
    } catch {
      // Without storage nothing is saved.
    }
  }

  return {
    read,
    /** Saves ``value`` as the first entry, in place of one of the same name. */
    save: (name, value) => write([{ name, [content]: value }, ...read().filter((entry) => entry.name !== name)]),
    forget: (name) => write(read().filter((entry) => entry.name !== name)),
  };
}
