/**
 * Users of MCP servers that ask a person: every user answers with a word that only it knows, while gateways are killed. Whatever mixes two
 * users up is counted, at the users and at the servers.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  inputRequired,
  inputResponse,
  McpServer,
  type StandardSchemaV1,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { modernRequest } from './mcp-tasks.js';
import type { TestFleet } from './test-fleet.js';

const TASKS = 'io.modelcontextprotocol/tasks';
const FORM = { elicitation: { form: {} } };
/** How long a user begins again, because a gateway was killed. */
const GIVE_UP_MS = 120_000;
const POLL_MS = 250;

/** The only right answer to the question about a token. */
const wordOf = (token: string): string => `word-of-${token}`;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Pseudo-random numbers from 0 to 1, the same for the same seed. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export interface AskingSources {
  /** One for each server. */
  readonly origins: readonly string[];
  /** Entries of the configuration file, by name. */
  entries: Record<string, object>;
  /** Answers to a question that were meant for another one. */
  readonly wrong: readonly string[];
  /** Answers of all users. */
  answers(): number;
  stop(): Promise<void>;
}

/** Starts MCP servers with the tools `ask` that asks by an `input_required` result, and `work`, a task that asks while it runs. */
export async function startAskingSources(count: number): Promise<AskingSources> {
  const wrong: string[] = [];
  let answers = 0;
  const take = (token: string, content: unknown): string => {
    const word = String((content as { word?: unknown } | undefined)?.word);
    answers += 1;
    if (word !== wordOf(token)) wrong.push(`${token} got ${word}`);
    return word;
  };
  const question = (source: string, token: string) => ({
    message: `${source} asks for the word of ${token}`,
    requestedSchema: { type: 'object' as const, properties: { word: { type: 'string' as const } } },
  });
  const handlers = Array.from({ length: count }, (_, number) => toNodeHandler(createMcpHandler(() => source(number))));
  const tasks = new Map<string, { source: string; token: string; word?: string; isCancelled?: boolean }>();
  const source = (number: number): McpServer => {
    const name = `s${number}`;
    const made = new McpServer({ name, version: '1' }, { capabilities: { tools: {}, extensions: { [TASKS]: {} } } });
    const inputSchema = z.object({ token: z.string() });
    made.registerTool('ask', { description: 'Asks for a word.', inputSchema }, ({ token }, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, 'word');
      if (answer.kind !== 'elicit')
        return inputRequired({
          inputRequests: { word: inputRequired.elicit(question(name, token)) },
          requestState: `state of ${token}`,
        });
      if (mcpReq.requestState<unknown>() !== `state of ${token}`) wrong.push(`${token} got another state`);
      return { content: [{ type: 'text', text: `${name} ${token} ${take(token, answer.content)}` }] };
    });
    made.registerTool('work', { description: 'Works for a while.', inputSchema }, ({ token }) => {
      const taskId = `task ${tasks.size} of ${token}`;
      tasks.set(taskId, { source: name, token });
      return { resultType: 'task', taskId, status: 'working', ...times } as never;
    });
    made.server.setRequestHandler('tasks/get', { params: TASK_ID }, ({ taskId }) => state(taskId));
    made.server.setRequestHandler('tasks/cancel', { params: TASK_ID }, ({ taskId }) => {
      tasks.get(taskId)!.isCancelled = true;
      return {};
    });
    made.server.setRequestHandler('tasks/update', { params: TASK_ID }, ({ taskId }, { mcpReq }) => {
      const task = tasks.get(taskId)!;
      const answer = mcpReq.inputResponses?.['word'] as { content?: unknown } | undefined;
      if (answer) task.word = take(task.token, answer.content);
      return {};
    });
    return made;
  };
  const now = new Date().toISOString();
  const times = { createdAt: now, lastUpdatedAt: now, ttlMs: 600_000, pollIntervalMs: POLL_MS };
  const state = (taskId: string) => {
    const { source: of, token, word, isCancelled } = tasks.get(taskId)!;
    const base = { taskId, ...times };
    if (isCancelled) return { ...base, status: 'cancelled' };
    if (word === undefined) {
      const params = { mode: 'form', ...question(of, token) };
      return { ...base, status: 'input_required', inputRequests: { word: { method: 'elicitation/create', params } } };
    }
    return { ...base, status: 'completed', result: { content: [{ type: 'text', text: `${of} ${token} ${word}` }] } };
  };
  const servers = handlers.map((handler) => createServer(handler));
  await Promise.all(servers.map((server) => once(server.listen(0, '127.0.0.1'), 'listening')));
  const origins = servers.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    origins,
    entries: Object.fromEntries(origins.map((origin, number) => [`s${number}`, { url: `${origin}/mcp` }])),
    wrong,
    answers: () => answers,
    stop: async () => {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => once(server.close(), 'close')));
    },
  };
}

const TASK_ID: StandardSchemaV1<unknown, { taskId: string }> = {
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: value as { taskId: string } }) },
};

/** What users found out. */
export interface Findings {
  /** Questions, results and accepted answers of another user. */
  wrong: string[];
  /** Users that had their own result in the end, by the way they were asked. */
  done: Record<'modern' | 'legacy' | 'task', number>;
  /** Users that had none. */
  failed: string[];
  /** Calls that were begun again. */
  repeated: number;
  /** Attempts to answer for another user, all of which must be refused. */
  intrusions: number;
}

/** One user: its key, and the kind of its client. */
interface User {
  key: string;
  keyId: string;
  token: string;
  source: string;
  kind: 'modern' | 'legacy' | 'task';
}

/**
 * Lets users ask and answer at the same time, each request at any gateway.
 * @param spreadMs longest time between a question and its answer
 * @returns what they found; call `findings` while they work to follow them
 */
export function askUsers(
  fleet: TestFleet,
  {
    users,
    sources,
    seed,
    spreadMs,
    lanes,
  }: { users: number; sources: number; seed: number; spreadMs: number; lanes: number },
): { findings: Findings; end: Promise<void> } {
  const random = randomFrom(seed);
  const findings: Findings = {
    wrong: [],
    done: { modern: 0, legacy: 0, task: 0 },
    failed: [],
    repeated: 0,
    intrusions: 0,
  };
  const people = new People(fleet, random, spreadMs, findings);
  const lane = async (numbers: IterableIterator<number>): Promise<void> => {
    for (const number of numbers) await people.run(number, sources);
  };
  const numbers = Array.from({ length: users }, (_, number) => number).values();
  const end = Promise.all(Array.from({ length: lanes }, () => lane(numbers))).then(() => undefined);
  return { findings, end };
}

class People {
  /** States, tasks and questions of others, for a user that tries to answer for them. */
  readonly #states: { token: string; state: string; source: string }[] = [];
  readonly #tasks: { token: string; taskId: string }[] = [];
  readonly #questions: { token: string; id: unknown }[] = [];

  constructor(
    private readonly fleet: TestFleet,
    private readonly random: () => number,
    private readonly spreadMs: number,
    private readonly findings: Findings,
  ) {}

  /** One user from its key to its result. */
  async run(number: number, sources: number): Promise<void> {
    const kind = number % 5 === 4 ? 'task' : number % 2 === 0 ? 'modern' : 'legacy';
    const user: User = { key: '', keyId: '', token: `token-${number}-`, source: `s${number % sources}`, kind };
    let last: unknown;
    for (const until = performance.now() + GIVE_UP_MS; performance.now() < until;) {
      try {
        if (user.key === '') Object.assign(user, await this.#newKey(`user-${number}`));
        const text = await this.#ask(user);
        const own = `${user.source} ${user.token} ${wordOf(user.token)}`;
        if (text !== own) this.findings.wrong.push(`${user.token} got the result ${text}`);
        // A tenant has at most 1,000 keys.
        await this.#revoke(user);
        this.findings.done[kind] += 1;
        return;
      } catch (error) {
        // A gateway was killed.
        last = error;
        this.findings.repeated += 1;
        await sleep(POLL_MS);
      }
    }
    this.findings.failed.push(`${user.token} (${kind}): ${String(last)}`);
  }

  #ask(user: User): Promise<string> {
    if (user.kind === 'legacy') return this.#askLegacy(user);
    return user.kind === 'task' ? this.#askTask(user) : this.#askModern(user);
  }

  async #askModern(user: User): Promise<string> {
    const { token } = user;
    const call = { name: `${user.source}_ask`, arguments: { token } };
    const asked = await this.#rpc(user, 'tools/call', call);
    this.#check(token, asked);
    const requestState = String(asked['requestState']);
    if (asked['resultType'] !== 'input_required') throw new Error(JSON.stringify(asked));
    await this.#think();
    const inputResponses = { word: this.#answer(token) };
    const other = this.#someOther(this.#states, token);
    this.#states.push({ token, state: requestState, source: user.source });
    if (other) {
      this.findings.intrusions += 1;
      const theirs = { name: `${other.source}_ask`, arguments: { token: other.token }, requestState: other.state };
      const refused = await this.#rpc(user, 'tools/call', { ...theirs, inputResponses }).catch(() => undefined);
      if (JSON.stringify(refused ?? '').includes('word-of'))
        this.findings.wrong.push(`${token} answered for ${other.token}`);
    }
    return textOf(await this.#rpc(user, 'tools/call', { ...call, inputResponses, requestState }));
  }

  async #askTask(user: User): Promise<string> {
    const { token } = user;
    const created = await this.#rpc(user, 'tools/call', { name: `${user.source}_work`, arguments: { token } });
    const taskId = String(created['taskId']);
    if (created['resultType'] !== 'task') throw new Error(JSON.stringify(created));
    const inputResponses = { word: this.#answer(token) };
    const other = this.#someOther(this.#tasks, token);
    this.#tasks.push({ token, taskId });
    for (let isAnswered = false; ;) {
      const { status, result, ...state } = await this.#rpc(user, 'tasks/get', { taskId });
      if (status === 'completed') return textOf(result as Record<string, unknown>);
      if (status === 'failed' || status === 'cancelled') throw new Error(JSON.stringify(state));
      if (status === 'input_required' && !isAnswered) {
        this.#check(token, state);
        await this.#think();
        if (other !== undefined) {
          this.findings.intrusions += 1;
          const theirs = { taskId: other.taskId, inputResponses };
          const taken = await this.#rpc(user, 'tasks/update', theirs).catch(() => undefined);
          if (taken) this.findings.wrong.push(`${token} answered for a task of another user`);
        }
        await this.#rpc(user, 'tasks/update', { taskId, inputResponses });
        isAnswered = true;
      }
      await sleep(POLL_MS);
    }
  }

  /** A 2025 client is asked on the stream of its call, and answers at any gateway. */
  async #askLegacy(user: User): Promise<string> {
    const { token, key } = user;
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'spec', version: '1' },
    };
    const begun = await this.#post(key, {}, { jsonrpc: '2.0', id: 0, method: 'initialize', params });
    await begun.text();
    const headers = {
      'mcp-session-id': begun.headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': '2025-11-25',
    };
    const call = { name: `${user.source}_ask`, arguments: { token } };
    const response = await this.#post(key, headers, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call });
    for await (const message of messagesOf(response)) {
      if (message['id'] === 1) return textOf((message['result'] ?? message['error']) as Record<string, unknown>);
      if (message['method'] !== 'elicitation/create') continue;
      this.#check(token, message);
      await this.#think();
      const other = this.#someOther(this.#questions, token);
      this.#questions.push({ token, id: message['id'] });
      const answer = (id: unknown) =>
        this.#post(key, headers, { jsonrpc: '2.0', id, result: this.#answer(token) }).then((sent) => sent.text());
      if (other !== undefined) {
        this.findings.intrusions += 1;
        await answer(other.id).catch(() => undefined);
      }
      await answer(message['id']);
    }
    throw new Error('the stream ended');
  }

  #answer(token: string): object {
    return { action: 'accept', content: { word: wordOf(token) } };
  }

  #check(token: string, asked: object): void {
    const named = /token-\d+-/.exec(JSON.stringify(asked))?.[0];
    if (named !== undefined && named !== token) this.findings.wrong.push(`${token} was asked for ${named}`);
  }

  /** One of another user, for three of ten users. A user that begins again has some of its own there. */
  #someOther<T extends { token: string }>(of: readonly T[], token: string): T | undefined {
    const others = of.filter((one) => one.token !== token);
    return this.random() < 0.3 ? others[Math.floor(this.random() * others.length)] : undefined;
  }

  #think(): Promise<void> {
    return sleep(this.random() * this.spreadMs);
  }

  get #gateway(): number {
    return Math.floor(this.random() * (this.fleet.running.get('gateway')?.length ?? 1));
  }

  async #newKey(client: string): Promise<Pick<User, 'key' | 'keyId'>> {
    const { body } = await this.fleet.ask({
      path: '/api/v1/keys',
      body: { client, service_account: client, tier: 'wide' },
      gateway: this.#gateway,
    });
    if (typeof body?.token !== 'string') throw new Error(JSON.stringify(body));
    return { key: body.token, keyId: body.id };
  }

  async #revoke({ keyId }: User): Promise<void> {
    const path = `/api/v1/keys/${keyId}`;
    await this.fleet.ask({ method: 'DELETE', path, gateway: this.#gateway }).catch(() => undefined);
  }

  #post(key: string, headers: Record<string, string>, body: object): Promise<Response> {
    return fetch(`${this.fleet.url(this.#gateway)}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(130_000),
    });
  }

  /** The result of a request of a client of 2026. @throws Error with the error of the answer */
  async #rpc({ key }: User, method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { body, headers } = modernRequest(method, params, FORM);
    const response = await this.#post(key, headers, body);
    const { result, error } = (await response.json()) as { result?: Record<string, unknown>; error?: unknown };
    if (!result) throw new Error(JSON.stringify(error));
    return result;
  }
}

/** @throws Error for a failed call, begun again */
function textOf(result: Record<string, unknown>): string {
  const [first] = (result['content'] ?? []) as { text?: string }[];
  if (result['isError'] === true || first?.text === undefined) throw new Error(JSON.stringify(result).slice(0, 2_000));
  return first.text;
}

/** The messages of a response, whether it is one or a stream of events. */
async function* messagesOf(response: Response): AsyncGenerator<Record<string, unknown>> {
  if (!response.headers.get('content-type')?.includes('event-stream')) {
    yield (await response.json()) as Record<string, unknown>;
    return;
  }
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = /^data: ?(.+)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data) yield JSON.parse(data) as Record<string, unknown>;
    }
  }
}
