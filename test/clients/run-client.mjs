/**
 * Runs the recipe of one client in a separate process, with a scripted model where the client is an agent framework. Receives
 * `{client, url, key, steps}` as its first message and `abort` when the run is to be cancelled; sends `{progress}`, then
 * `{tools, shown, pictures, error}`. What a framework prints goes to the standard streams.
 */
import { inspect } from 'node:util';
import { Script } from './script.mjs';

const controller = new AbortController();
const send = (message) => new Promise((resolve) => process.send(message, resolve));

process.once('disconnect', () => process.exit(0));
process.once('message', (request) => {
  process.on('message', (message) => message === 'abort' && controller.abort(new Error('The user stopped the run')));
  void main(request);
});

async function main({ client: name, url, key, steps }) {
  const outcome = { tools: [], shown: [] };
  const script = new Script(steps);
  let client;
  try {
    client = await import(`./clients/${name}.mjs`);
    const given = {
      url: `${url}${client.query ?? ''}`,
      key,
      signal: controller.signal,
      onProgress: (report) => void send({ progress: report }),
    };
    if (client.scriptedModel) {
      await client.recipe({
        ...given,
        model: client.scriptedModel(script),
        prompt: 'Follow the script.',
      });
    } else {
      for (const step of steps) {
        const onTools = (tools) => (outcome.tools = tools);
        outcome.shown.push(await client.recipe({ ...given, name: step.name, args: step.args, onTools }));
      }
    }
  } catch (error) {
    outcome.error = describe(error);
  }
  outcome.isAgent = client?.scriptedModel !== undefined;
  if (script.offered.length > 0) Object.assign(outcome, { tools: script.offered, shown: script.shown });
  // Frameworks may show a picture as bytes; it is compared as base64.
  const toJson = (_key, value) => (value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value);
  const sent = JSON.parse(JSON.stringify(outcome, toJson));
  if (client) sent.pictures = sent.shown.slice(0, 1).flatMap((shown) => client.picturesIn(shown));
  await send(sent);
  // The parent ends this process: its end would close connections that a cancelled run has left open.
}

/** An error as a developer reads it: as Node prints an uncaught one. */
const describe = (error) => inspect(error, { depth: 6, breakLength: Infinity });
