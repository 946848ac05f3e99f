// Formatting of figures and names, and display texts for the keys of events.

const number = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

const count = (n) => (n >= 1e6 ? short.format(n / 1e6) + " M" : number.format(Math.round(n || 0)));
const share = (n) => (n > 0 && n < 0.01 ? "<1 %" : n > 0.99 && n < 1 ? ">99 %" : Math.round((n || 0) * 100) + " %");
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");

const joined = (...texts) => texts.filter(Boolean).join(", ");

// took formats a duration in milliseconds with three digits or two units.
function took(ms) {
  if (!(ms > 0)) return "0 ms";
  if (ms < 0.95) return "<1 ms";
  if (ms < 999.5) return Math.round(ms) + " ms";
  if (ms < 59950) return (ms / 1000).toFixed(ms < 9950 ? 2 : 1) + " s";
  const s = Math.round(ms / 1000);
  if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
  const min = Math.round(s / 60);
  if (min < 48 * 60) return Math.floor(min / 60) + " h " + (min % 60) + " min";
  return Math.floor(min / 1440) + " d " + Math.floor((min % 1440) / 60) + " h";
}

const clockOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const dateOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

// fromTo formats a period, and repeats the date only if it differs.
function fromTo(from, to) {
  const [a, b] = [from, to].map((at) => dateOf.format(Date.parse(at))), [c, d] = [from, to].map((at) => minuteOf.format(Date.parse(at)));
  return `${a}, ${c} to ${a === b ? "" : b + ", "}${d}`;
}

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

// how returns the outcome of a call or prefetch in the timeline.
function how(b) {
  if (b.kind === "prefetch") {
    switch (b.outcome) {
      case "used": return "used";
      case "late": return "used, still in flight when called";
      case "wasted": return "wasted: " + cause(b.cause || "never_asked");
      case "compared": return "compared with a call's own result";
      default: return "in flight";
    }
  }
  const bad = b.is_error ? ", error" : "";
  switch (b.outcome) {
    case "hit": return (b.prefetched ? "from a prefetch" : "from the cache") + bad;
    case "joined": return (b.prefetched ? "joined a prefetch" : "joined another call") + bad;
    case "failed": return "not answered";
    default: return "fetched" + bad;
  }
}
