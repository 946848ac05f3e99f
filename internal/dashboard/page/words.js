// Formatting of figures and names, and display texts for the keys of events.

const number = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

const count = (n) => (n >= 1e6 ? short.format(n / 1e6) + " M" : number.format(Math.round(n || 0)));
const share = (n) => (n > 0 && n < 0.01 ? "<1 %" : n > 0.99 && n < 1 ? ">99 %" : Math.round((n || 0) * 100) + " %");
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");

const joined = (...texts) => texts.filter(Boolean).join(", ");

// took formats a duration in milliseconds with three digits or two units, as duration of
// package record does.
function took(ms) {
  const two = (n, first, second, size) => Math.floor(n / size) + " " + first + (n % size > 0 ? ` ${n % size} ${second}` : "");
  if (!(ms > 0)) return "0 ms";
  if (ms < 0.95) return "<1 ms";
  if (ms < 999.5) return Math.round(ms) + " ms";
  if (ms < 59950) return (ms / 1000).toFixed(ms < 9950 ? 2 : 1) + " s";
  const s = Math.round(ms / 1000);
  if (s < 3600) return two(s, "min", "s", 60);
  const min = Math.round(s / 60);
  if (min < 48 * 60) return two(min, "h", "min", 60);
  return two(Math.floor(min / 60), "d", "h", 24);
}

const clockOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

const clock = (at) => clockOf.format(at);

// clean makes a name safe to show: names from servers and clients may contain control
// characters, bidirectional overrides, invisible characters, or thousands of letters.
function clean(name, most = 72) {
  const text = String(name ?? "").slice(0, 8 * most).replace(/[\p{C}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu, "\ufffd");
  // More combining marks on one letter than any language uses would cover other lines.
  const tidy = text.replace(/(\p{M}{3})\p{M}+/gu, "$1");
  const letters = Array.from(tidy);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : letters.join("");
}

// LEVELS are the prefetch levels of package speculate.
const LEVELS = ["observe only", "one at a time", "half of what is configured", "as configured", "as configured, more readily"];

const level = (n) => n + ": " + (LEVELS[n] || "unknown");

// WORDS comes from the program: every metric with its help, and display texts for the
// reasons of declined candidates and the causes of wasted prefetches.

const reason = (key) => {
  const w = Object.hasOwn(WORDS.reasons, key) ? WORDS.reasons[key] : { word: clean(key, 40), meaning: "No description available." };
  return [w.word, w.meaning];
};

const cause = (key) => (Object.hasOwn(WORDS.causes, key) ? WORDS.causes[key].word : clean(key, 40));

// CALLS and PREFETCHES are the outcomes of calls and prefetches.
const CALLS = { fetched: "fetched", ahead: "from a prefetch", hit: "from the cache", joined: "joined another", failed: "not answered" };
const PREFETCHES = { used: "used", late: "used late", wasted: "wasted", compared: "only compared" };

function outcome(e) {
  if (e.kind === "prefetch") return Object.hasOwn(PREFETCHES, e.fate) ? e.fate : "wasted";
  if (e.prefetched && (e.disposition === "hit" || e.disposition === "joined")) return "ahead";
  return Object.hasOwn(CALLS, e.disposition) ? e.disposition : "fetched";
}

// how describes the outcome of a call or prefetch.
const how = (e) => joined(CALLS[outcome(e)] || PREFETCHES[outcome(e)], e.cause && cause(e.cause), e.is_error && "error");
