// recipe
import { InMemoryRunner, LlmAgent } from '@google/adk';
import { MCPToolset } from '@google/adk/tools/mcp';
// end of recipe
import { BaseLlm } from '@google/adk';

/** The pictures in a result as Gemini gets it: in parts, not in the JSON of the response. */
export const picturesIn = ({ parts = [] }) => parts.flatMap(({ inlineData }) => inlineData?.data ?? []);
/** Gemini refuses references in schemas. */
export const query = '?schema_style=inline';

export async function recipe({ url, key, model, prompt, signal: abortSignal }) {
  // recipe
  const transportOptions = { requestInit: { headers: { Authorization: `Bearer ${key}` } } };
  const toolfleet = new MCPToolset({ type: 'StreamableHTTPConnectionParams', url, transportOptions });
  const runner = new InMemoryRunner({ agent: new LlmAgent({ name: 'assistant', model, tools: [toolfleet] }) });
  const { id: sessionId } = await runner.sessionService.createSession({ appName: runner.appName, userId: 'user' });
  const newMessage = { role: 'user', parts: [{ text: prompt }] };
  for await (const event of runner.runAsync({ userId: 'user', sessionId, newMessage, abortSignal }))
    console.log(event.content?.parts);
  await toolfleet.close();
  // end of recipe
}

class ScriptedLlm extends BaseLlm {
  constructor(script) {
    super({ model: 'scripted' });
    this.script = script;
  }

  async *generateContentAsync({ contents, toolsDict }) {
    const results = contents.flatMap(({ parts = [] }) => parts).filter((part) => part.functionResponse);
    const call = this.script.next(Object.keys(toolsDict), results.at(-1)?.functionResponse);
    const part = call ? { functionCall: { id: call.id, name: call.name, args: call.args } } : { text: 'done' };
    yield { content: { role: 'model', parts: [part] } };
  }

  async connect() {
    throw new Error('The scripted model has no live connection');
  }
}

/** A model of this framework that follows the script. */
export const scriptedModel = (script) => new ScriptedLlm(script);
