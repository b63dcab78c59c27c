/** Data of a release as text: every key of Redis, the ledger, the files of results and workspaces. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';
import type { SampleServices } from '../fleet/sample-services.js';
import type { LeftData } from './left-data.js';
import { forSamples, withNames } from './recorded-messages.js';

/** One key of Redis; values of hashes are field and value by turns, sorted sets' member and score, streams' entries. */
export interface RecordedKey {
  key: string;
  type: string;
  value: unknown;
  ttlMs?: number;
}

/** A recording. Times are the recording's; `forNow` moves them. */
export interface RecordedData {
  recordedAt: number;
  left: LeftData;
  /** A call that was charged in Redis and had not reached the ledger. */
  unwrittenId: string;
  redis: RecordedKey[];
  /** Statements that make the tables of the embedded ledger, and their rows. */
  ledger: { schema: string[]; rows: Record<string, Record<string, string | number | null>[]> };
  /** By path below the folder of the fleet. */
  files: Record<string, string>;
}

const FOLDERS = ['results', 'workspaces'];
const DAY_MS = 86_400_000;

const READ: Record<string, (redis: Redis, key: string) => Promise<unknown>> = {
  string: (redis, key) => redis.get(key),
  list: (redis, key) => redis.lrange(key, 0, -1),
  set: (redis, key) => redis.smembers(key),
  hash: async (redis, key) => Object.entries(await redis.hgetall(key)).flat(),
  zset: (redis, key) => redis.zrange(key, '0', '-1', 'WITHSCORES'),
  stream: (redis, key) => redis.xrange(key, '-', '+'),
};

/** Every key of a Redis. */
export async function readKeys(redis: Redis): Promise<RecordedKey[]> {
  const keys = (await redis.keys('*')).toSorted();
  return Promise.all(
    keys.map(async (key) => {
      const type = await redis.type(key);
      const ttlMs = await redis.pttl(key);
      return { key, type, value: await READ[type]!(redis, key), ...(ttlMs > 0 ? { ttlMs } : {}) };
    }),
  );
}

/** Writes keys as they were, with their time to live, into an empty Redis. */
export async function writeKeys(redis: Redis, keys: readonly RecordedKey[]): Promise<void> {
  for (const { key, type, value, ttlMs } of keys) {
    const list = value as string[];
    if (type === 'string') await redis.set(key, value as string);
    else if (type === 'list') await redis.rpush(key, ...list);
    else if (type === 'set') await redis.sadd(key, ...list);
    else if (type === 'hash') await redis.hset(key, ...(list as [string, string]));
    else if (type === 'zset') await redis.zadd(key, ...pairs(list).flatMap(([member, score]) => [score!, member!]));
    else for (const [id, fields] of value as [string, string[]][]) await redis.xadd(key, id, ...fields);
    if (ttlMs !== undefined) await redis.pexpire(key, ttlMs);
  }
}

const pairs = (list: readonly string[]): string[][] =>
  Array.from({ length: list.length / 2 }, (_, index) => list.slice(2 * index, 2 * index + 2));

/** The embedded ledger of a stopped budget service. */
export function readLedger(file: string): RecordedData['ledger'] {
  const database = new Database(file, { readonly: true });
  try {
    const made = database
      .prepare('select name, type, sql from sqlite_master where sql is not null order by type desc, name')
      .all();
    const parts = made as { name: string; type: string; sql: string }[];
    const tables = parts.filter(({ type }) => type === 'table').map(({ name }) => name);
    const rowsOf = (name: string) => database.prepare(`select * from ${name}`).all() as Record<string, string>[];
    return {
      schema: parts.map(({ sql }) => sql),
      rows: Object.fromEntries(tables.map((name) => [name, rowsOf(name)])),
    };
  } finally {
    database.close();
  }
}

export function writeLedger(
  file: string,
  { schema, rows }: RecordedData['ledger'],
  more: readonly string[] = [],
): void {
  const database = new Database(file);
  try {
    for (const statement of schema) database.exec(statement);
    for (const [table, list] of Object.entries(rows))
      for (const row of list) {
        const places = Object.keys(row).map((column) => `@${column}`);
        database.prepare(`insert into ${table} (${Object.keys(row).join()}) values (${places.join()})`).run(row);
      }
    for (const statement of more) database.exec(statement);
  } finally {
    database.close();
  }
}

export async function readFiles(folder: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const part of FOLDERS)
    for (const entry of await readdir(join(folder, part), { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) files[relative(folder, path)] = await readFile(path, 'utf8');
    }
  return files;
}

export async function writeFiles(folder: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

/** Moves the times of a recording (milliseconds since 1970, and hours in names of files) as if it was made now: all of it has expired. */
function forNow(recorded: RecordedData, now: number): RecordedData {
  const passed = now - recorded.recordedAt;
  const moved = (at: string) => {
    const isOfRecording = Math.abs(Number(at) - recorded.recordedAt) < 400 * DAY_MS;
    return isOfRecording ? String(Number(at) + passed) : at;
  };
  const movedHour = (hour: string) => new Date(Date.parse(`${hour}:00Z`) + passed).toISOString().slice(0, hour.length);
  const text = JSON.stringify(recorded)
    .replace(/(?<![\d.])\d{13}(?!\d)/g, moved)
    .replace(/\d{4}-\d\d-\d\dT\d\d(?=\/)/g, movedHour);
  return JSON.parse(text) as RecordedData;
}

const fileOf = (release: string): string => fileURLToPath(new URL(`./data-${release}.json`, import.meta.url));

/** The recording of a release, with the addresses of samples that run now. */
export async function readRecording(release: string, samples: SampleServices): Promise<RecordedData> {
  const recorded = JSON.parse(await readFile(fileOf(release), 'utf8')) as RecordedData;
  return forSamples(forNow(recorded, Date.now()), samples);
}

export async function writeRecording(release: string, data: RecordedData, samples: SampleServices): Promise<void> {
  await writeFile(fileOf(release), `${JSON.stringify(withNames(data, samples), null, 1)}\n`);
}

const ADDED = 'from_a_later_release';
/** Parts with keys that are data and not fields, and those that a source's pin covers. */
const NO_RECORD = new Set(
  'annotations arguments fields input_schema output_schema output plan properties protections'.split(' '),
);
/** Hashes with the fields of one record. */
const RECORD_KEYS = /^\{c:|^\{call:.*:record$|^\{fleet\}:[^:]+:[^:]*-[^:]*$/;

/** The data as a later release may leave it: each record has a field more, Redis more keys, the ledger a migration. */
export function asOfLaterRelease(data: RecordedData): RecordedData {
  const redis = data.redis.map(({ value, ...rest }): RecordedKey => {
    const added = withField(value);
    return {
      ...rest,
      value: rest.type === 'hash' && RECORD_KEYS.test(rest.key) ? [...(added as string[]), ADDED, '{}'] : added,
    };
  });
  return {
    ...data,
    redis: [...redis, { key: `{${ADDED}}:records`, type: 'hash', value: ['one', '{}'] }],
    ledger: {
      schema: [
        ...data.ledger.schema,
        `alter table token_usage add column ${ADDED} text`,
        `alter table usage_daily add column ${ADDED} integer not null default 0`,
        `create table ${ADDED} (name text)`,
        `insert into ledger_migration (name, executed_at) values ('0002-later', '')`,
      ],
      rows: data.ledger.rows,
    },
  };
}

/** Adds a field to every record of a JSON text, and of a list of texts. */
function withField(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withField);
  if (typeof value !== 'string' || !value.startsWith('{"')) return value;
  return JSON.stringify(withFields(JSON.parse(value) as Json));
}

function withFields(value: Json): Json {
  if (Array.isArray(value)) return value.map(withFields);
  if (!isJsonObject(value)) return value;
  const fields = Object.entries(value).map(([name, part]) => [name, NO_RECORD.has(name) ? part : withFields(part!)]);
  return { ...(Object.fromEntries(fields) as JsonObject), [ADDED]: 1 };
}
