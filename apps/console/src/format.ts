/** Formats of figures. */

const usd = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
const smallUsd = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 6 });
const whole = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** `$0.0012`; small prices keep their digits. */
export const money = (value: number): string => (Math.abs(value) < 1 ? smallUsd : usd).format(value);
/** `12,345`. */
export const count = (value: number): string => whole.format(value);
const PER = [
  ['a minute', 1],
  ['an hour', 60],
  ['a day', 1_440],
] as const;
/** `12 a minute`, `4 a day`: of the shortest time with at least one, with two digits. */
export function rate(amount: number, minutes: number): string {
  const [unit, length] = PER.find(([, one]) => amount * one >= minutes) ?? PER[2];
  return `${Number(((amount * length) / minutes).toPrecision(2))} ${unit}`;
}
/** `12.3K`, for axes. */
export const compact = (value: number): string => short.format(value);

/** `0.4 ms`, `35 ms`, `1.3 s`, `2 min 5 s`, `3 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Local date and time of an instant. */
export function dateTime(instant: string | number): string {
  return new Date(instant).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short', hourCycle: 'h23' });
}

/** Local time with seconds. */
export function clockTime(instant: string | number): string {
  return new Date(instant).toLocaleTimeString(undefined, { hour12: false });
}

/** An instant as the value of an input of local date and time: `2026-01-31T12:00`. Empty for any other text. */
export function inputTime(instant: string | undefined): string {
  const at = new Date(instant ?? '');
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** JSON for people. */
export const pretty = (value: unknown): string => JSON.stringify(value, null, 2) ?? '';

/** `512 B`, `1.2 KB`, `3.4 MB`. */
export function byteSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
