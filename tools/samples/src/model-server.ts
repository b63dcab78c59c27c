/**
 * A chat model that follows a script, behind the OpenAI chat API: for tests and the tour, where a real model would be slow,
 * costly and different every time. The user's message is the script:
 *
 *   CALL calculator {"expression":"6*7"}     asks for this tool call; CALL lines that follow each other run in parallel
 *   THEN                                     ends a round: what follows is asked for once its results are here
 *   LOOP calculator {"expression":"1+1"}     asks for it in every round, without end
 *   SLEEP 200                                waits 200 ms before each turn
 *   FAIL 500                                 answers every turn with this status
 *   SAY text                                 the answer; `{results}` stands for the results of all tools
 *
 * Without a script it calls a tool it can guess (`calculate …`, `weather in …`), or repeats the message.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface ToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}
interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | null;
  tool_calls?: ToolCall[];
}
interface ChatBody {
  model: string;
  messages: Message[];
  tools?: { function: { name: string } }[];
}
interface Script {
  rounds: { name: string; args: string }[][];
  loop: { name: string; args: string } | undefined;
  say: string | undefined;
  sleepMs: number;
  fail: number | undefined;
}

const MAX_BODY_BYTES = 4 * 1024 * 1024;

function readScript(text: string): Script {
  const script: Script = { rounds: [[]], loop: undefined, say: undefined, sleepMs: 0, fail: undefined };
  for (const line of text.split('\n')) {
    const [, word, rest = ''] = /^\s*(CALL|LOOP|THEN|SLEEP|FAIL|SAY)\b\s*(.*)$/.exec(line) ?? [];
    const [, name = '', args = '{}'] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
    if (word === 'CALL') script.rounds.at(-1)?.push({ name, args: args || '{}' });
    else if (word === 'LOOP') script.loop = { name, args: args || '{}' };
    else if (word === 'THEN') script.rounds.push([]);
    else if (word === 'SLEEP') script.sleepMs = Math.min(10_000, Number(rest) || 0);
    else if (word === 'FAIL') script.fail = Number(rest) || 500;
    else if (word === 'SAY') script.say = rest;
  }
  const scripted =
    script.rounds.some((round) => round.length > 0) ||
    script.loop ||
    script.say !== undefined ||
    script.fail !== undefined;
  if (!scripted) script.rounds = [guess(text)];
  return script;
}

/** Possible wishes of an unscripted message. */
function guess(text: string): { name: string; args: string }[] {
  const sum = /\b(?:calculate|compute|what is)\s+([\d(][\d\s().+*/^%-]*)/i.exec(text)?.[1]?.trim();
  if (sum) return [{ name: 'calculator', args: JSON.stringify({ expression: sum }) }];
  const city = /\bweather (?:in|of|for)\s+(\p{Lu}[\p{L} -]{1,40})/u.exec(text)?.[1]?.trim();
  return city ? [{ name: 'get_weather', args: JSON.stringify({ city }) }] : [];
}

/** The next turn: the round after finished ones. */
function nextTurn(body: ChatBody, script: Script): { content: string | null; tool_calls?: ToolCall[] } {
  const user = body.messages.find((message) => message.role === 'user')?.content ?? '';
  const made = body.messages.filter((message) => message.role === 'assistant' && message.tool_calls).length;
  const offered = new Set((body.tools ?? []).map((tool) => tool.function.name));
  const wanted = script.loop ? [script.loop] : (script.rounds[made] ?? []);
  // A model that is offered no tools has to answer, and one that guesses asks only for offered tools.
  const mayCall =
    offered.size > 0 &&
    (script.loop !== undefined ||
      script.say !== undefined ||
      /^\s*(CALL|LOOP)\b/m.test(user) ||
      wanted.every((call) => offered.has(call.name)));
  if (wanted.length > 0 && mayCall) {
    const tool_calls = wanted.map((call, index) => ({
      id: `call_${made}_${index}`,
      type: 'function' as const,
      function: { name: call.name, arguments: call.args },
    }));
    return { content: null, tool_calls };
  }
  if (script.loop && script.say === undefined) return { content: '' };
  const results = body.messages.filter((message) => message.role === 'tool').map((message) => message.content ?? '');
  if (script.say !== undefined) return { content: script.say.replaceAll('{results}', results.join('; ')) };
  return { content: results.length > 0 ? `Result: ${results.join('; ')}` : `You said: ${user}` };
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === 'GET' && request.url === '/health') return send(response, 200, { status: 'ok' });
  if (request.method !== 'POST' || !/\/chat\/completions$/.test(request.url ?? ''))
    return send(response, 404, { error: { message: 'Not found' } });
  const body = JSON.parse(await readText(request)) as ChatBody;
  const script = readScript(body.messages.find((message) => message.role === 'user')?.content ?? '');
  if (script.sleepMs > 0) await new Promise((resolve) => setTimeout(resolve, script.sleepMs));
  if (script.fail !== undefined) return send(response, script.fail, { error: { message: 'As the script says' } });
  const message = { role: 'assistant', ...nextTurn(body, script) };
  const promptTokens = Math.ceil(JSON.stringify(body.messages).length / 4);
  const completionTokens = Math.ceil(JSON.stringify(message).length / 4);
  send(response, 200, {
    id: 'chatcmpl-scripted',
    object: 'chat.completion',
    model: body.model,
    choices: [{ index: 0, message, finish_reason: message.tool_calls ? 'tool_calls' : 'stop' }],
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    },
  });
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new RangeError('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: Error) => send(response, 400, { error: { message: error.message } }));
});
server.listen(
  Number(process.env['SAMPLE_MODEL_PORT'] ?? process.argv[2] ?? process.env['PORT'] ?? 0),
  process.env['HOST'] ?? '127.0.0.1',
  () => {
    console.log(`scripted model on port ${(server.address() as AddressInfo).port}`);
  },
);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0));
