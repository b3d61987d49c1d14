(() => {
"use strict";
const root = document.documentElement, byId = id => document.getElementById(id);
const RETRY_SECONDS_MAX = 120, RETRY_AFTER_SECONDS_MAX = 600;
let interval = Number(root.dataset.refresh), failures = 0, asked = Date.now(), timer = 0, done = false;

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const showTime = iso => {
  const time = new Date(iso), element = document.querySelector("time");
  element.dateTime = iso;
  put(element, time.toLocaleTimeString(root.lang, {timeStyle: "medium"}));
};
const next = seconds => {
  clearTimeout(timer);
  if (!done && seconds > 0) timer = setTimeout(poll, seconds * 1000);
};
const enter = () => {
  done = true;
  if (location.hash) location.reload(); else location.replace(location.href);
};
const show = (cf, page) => {
  root.dataset.state = page.state;
  document.title = page.title;
  for (const element of document.querySelectorAll("[data-text]")) {
    const text = page[element.dataset.text];
    put(element, text);
    if (element.tagName === "DD") element.parentElement.hidden = !text;
  }
  showTime(cf.lastUpdated);
};
const failed = retryAfter => {
  failures += 1;
  put(byId("lost"), byId("lost").dataset.lost);
  const backoff = Math.min(RETRY_SECONDS_MAX, interval * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);
  next(Math.max(backoff, Math.min(RETRY_AFTER_SECONDS_MAX, Number(retryAfter) || 0)));
};
const poll = async () => {
  clearTimeout(timer);
  asked = Date.now();
  let answer, body = null;
  try {
    answer = await fetch(location.href, {headers: {Accept: "application/json", "X-Gate-Poll": "1"}, cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(30000)});
    body = await answer.json().catch(() => null);
  } catch {
    return failed(0);
  }
  if (done) return;
  const cf = body && body.cfWaitingRoom;
  if (cf && cf.inWaitingRoom && body.page) {
    failures = 0;
    put(byId("lost"), "");
    interval = cf.refreshIntervalSeconds;
    show(cf, body.page);
    next(interval);
  } else if (!cf && (answer.status >= 500 || answer.status === 429)) {
    failed(answer.headers.get("Retry-After"));
  } else {
    enter();
  }
};
const leave = async () => {
  const button = byId("leave");
  if (!confirm(button.dataset.question)) return;
  done = true;
  clearTimeout(timer);
  try {
    const answer = await fetch(location.href, {method: "DELETE", headers: {Accept: "application/json", "X-Gate-Poll": "leave"}, cache: "no-store"});
    if (!answer.ok) throw answer;
  } catch {
    done = false;
    return failed(0);
  }
  root.dataset.state = "left";
  document.title = button.dataset.left;
  put(document.querySelector("h1"), button.dataset.left);
  for (const element of document.querySelectorAll(".lead, dl, .note, #leave")) element.hidden = true;
  byId("again").hidden = false;
};
// Some browsers say that cookies are enabled where they keep none. In a frame only cookies made for frames are kept.
const keepsCookies = () => {
  if (!navigator.cookieEnabled || window !== top) return navigator.cookieEnabled;
  document.cookie = "gate-probe=1; SameSite=Lax";
  const kept = document.cookie.includes("gate-probe=1");
  document.cookie = "gate-probe=; Max-Age=0; SameSite=Lax";
  return kept;
};
const back = () => { if (!done && interval > 0 && Date.now() - asked >= interval * 1000) poll(); };

put(byId("site"), location.hostname);
if (interval > 0 && !keepsCookies()) put(byId("cookies"), byId("cookies").dataset.needed);
byId("site").hidden = !location.hostname;
showTime(document.querySelector("time").dateTime);
if (interval > 0) {
  byId("updated").hidden = byId("leave").hidden = false;
  byId("leave").addEventListener("click", leave);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) back(); });
  addEventListener("online", back);
  addEventListener("pageshow", event => { if (event.persisted) { done = false; back(); } });
  // From here on the script asks, so the reload that the Refresh header has scheduled is called off.
  addEventListener("load", () => { window.stop(); next(interval); });
}
})();
