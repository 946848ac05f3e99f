// What figures and names look like, and what the words of the record mean.

const number = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

const count = (n) => (n >= 1e6 ? short.format(n / 1e6) + " M" : number.format(Math.round(n || 0)));
const share = (n) => (n > 0 && n < 0.01 ? "<1 %" : n > 0.99 && n < 1 ? ">99 %" : Math.round((n || 0) * 100) + " %");
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");

// took is a length of time, given in milliseconds, to three digits or two units.
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

// fromTo is a span of time, with the second date only if it is another.
function fromTo(from, to) {
  const [a, b] = [from, to].map((us) => dateOf.format(us / 1000)), [c, d] = [from, to].map((us) => minuteOf.format(us / 1000));
  return `${a}, ${c} to ${a === b ? "" : b + ", "}${d}`;
}

const clock = (us) => clockOf.format(us / 1000);

// clean is a name as it may be shown: whoever gave it may have put signs into it that
// turn the direction of text, break lines or show nothing, or thousands of letters.
function clean(name, most = 72) {
  const text = String(name ?? "").slice(0, 8 * most).replace(/[\p{C}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu, "\ufffd");
  // More marks on one letter than any language has would cover the lines around it.
  const tidy = text.replace(/(\p{M}{3})\p{M}+/gu, "$1");
  const letters = Array.from(tidy);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : letters.join("");
}

// LEVELS of package speculate.
const LEVELS = ["only watched", "one at a time", "half of what is configured", "as configured", "as configured, more readily"];

const level = (n) => n + ": " + (LEVELS[n] || "unknown");

// REASONS why a call that was thought of was not made early: word, meaning.
const REASONS = {
  low_probability: ["too unlikely", "It was less likely than min_probability of the configuration asks."],
  gate: ["would not pay", "Waste, were it wrong, weighed more than the waiting it would hide, were it right: too fast a tool, too unlikely, or too dear."],
  unsteady: ["may change unnoticed", "What the tool reads may change without the proxy noticing, so an answer fetched early might be an old one. Set exclusive = true for its upstream if nobody else changes it, or validate for tools that read a file."],
  budget: ["token budget", "Others hide more with the same tokens (prefetch_budget_tokens)."],
  cap: ["too many at once", "Others hide more with the same number of calls (max_parallel_prefetches), or another form of it was chosen."],
  dollars: ["costs money", "It is priced beyond what may still be spent in this session (max_dollars_per_session)."],
  not_speculatable: ["not allowed", "Its model forbids it, nobody vouches that it only reads, or something it needs cannot be had."],
  rate_limited: ["rate limit", "The pace of its host leaves no room: real calls go first."],
  throttled: ["throttled", "Earlier guesses to this host or in this session were wrong too often or did harm, or its upstream takes one call at a time."],
  stored: ["already there", "Its answer is in the store, and fresh."],
  in_flight: ["under way", "It is being fetched at this moment."],
  schema: ["arguments do not fit", "The arguments that were derived are not what the tool takes."],
  origin: ["foreign data", "Its arguments come from another upstream's data, which must not travel."],
  disclosure: ["would tell others", "It would tell third parties what it was guessed from."],
  shadow: ["only watched", "All else allows it, but it has to prove itself first (shadow mode, or a new follow-up)."],
  panic: ["went wrong", "The guess failed inside the proxy."],
  other: ["other", "One of many rarer reasons."],
};

const reason = (key) => (Object.hasOwn(REASONS, key) ? REASONS[key] : [clean(key, 40), "A reason that this page has no words for."]);

// CAUSES of waste.
const CAUSES = {
  expired: "too old when asked for", invalidated: "made stale by a write", never_asked: "never asked for",
  evicted: "made room for others", error: "its upstream answered with an error", dropped: "ended before it was done",
};

const cause = (key) => (Object.hasOwn(CAUSES, key) ? CAUSES[key] : clean(key, 40));

// how says what became of a bar of the timeline.
function how(b) {
  if (b.what === "prefetch") {
    switch (b.how) {
      case "used": return "used";
      case "late": return "used, still under way when asked for";
      case "wasted": return "wasted: " + cause(b.cause || "never_asked");
      case "compared": return "compared with what a call fetched";
      default: return "under way";
    }
  }
  const bad = b.is_error ? ", an error" : "";
  switch (b.how) {
    case "hit": return (b.guessed ? "answered ahead" : "answered from the store") + bad;
    case "joined": return (b.guessed ? "joined a prefetch" : "joined another call") + bad;
    case "failed": return "not answered";
    default: return "fetched" + bad;
  }
}
