// Calls the service's HTTP API. Whatever goes wrong becomes a `Problem` with one sentence to show.

export class Problem extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

const PATIENCE = 60_000; // milliseconds
const KEY = "somdst-key";

export function apiKey() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function setApiKey(key) {
  sessionStorage.setItem(KEY, key);
}

/** The answer to a request as JSON. `once` is an idempotency key: the same request with it is done once. */
export async function call(method, path, body = null, { once = null } = {}) {
  const headers = {};
  if (body !== null) headers["Content-Type"] = "application/json";
  if (once) headers["Idempotency-Key"] = once;
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === null ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch (error) {
    throw new Problem(error.name === "TimeoutError"
      ? "The service took longer than a minute: try again."
      : "The service does not answer: check that it is still running, then try again.");
  }
  if (answer.status === 204) return null;
  const data = await answer.json().catch(() => null);
  if (answer.ok && data !== null) return data;
  throw new Problem(data?.error ?? `The service answered with status ${answer.status} and no reason: try again.`,
    answer.status);
}

/** A new idempotency key. */
export function onceKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
