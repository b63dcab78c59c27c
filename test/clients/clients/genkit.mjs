// recipe
import { createMcpHost } from '@genkit-ai/mcp';
import { genkit } from 'genkit';
// end of recipe

/** The pictures in a result as this framework shows it to its model. */
export const picturesIn = ({ content = [] }) => content.flatMap(({ media }) => media?.url ?? []);

export async function recipe({ url, key, model: defineModel, prompt, signal }) {
  // recipe
  const ai = genkit({});
  // end of recipe
  const model = defineModel(ai);
  // recipe
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  const toolfleet = createMcpHost({ name: 'app', multipart: true, mcpServers: { toolfleet: { url, requestInit } } });
  const tools = await toolfleet.getActiveTools(ai);
  const { text } = await ai.generate({ model, prompt, tools, maxTurns: 20, abortSignal: signal });
  console.log(text);
  await toolfleet.close();
  // end of recipe
}

/** Defines a model of this framework that follows the script. */
export const scriptedModel = (script) => (ai) =>
  ai.defineModel({ name: 'scripted', supports: { tools: true, multiturn: true } }, async ({ messages, tools = [] }) => {
    const results = messages.flatMap(({ content }) => content).filter(({ toolResponse }) => toolResponse);
    const call = script.next(
      tools.map(({ name }) => name),
      results.at(-1)?.toolResponse,
    );
    const part = call ? { toolRequest: { ref: call.id, name: call.name, input: call.args } } : { text: 'done' };
    return { message: { role: 'model', content: [part] }, finishReason: 'stop' };
  });
