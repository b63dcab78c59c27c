// recipe
import { Agent } from '@mastra/core/agent';
import { MCPClient } from '@mastra/mcp';
// end of recipe
import { scriptedAiSdkModel } from '../ai-sdk-model.mjs';

export { picturesInAiSdk as picturesIn } from '../ai-sdk-model.mjs';
export const scriptedModel = scriptedAiSdkModel;

export async function recipe({ url, key, model, prompt, signal, onProgress }) {
  // recipe
  const server = { url: new URL(url), requestInit: { headers: { Authorization: `Bearer ${key}` } } };
  const toolfleet = new MCPClient({ servers: { toolfleet: { ...server, enableProgressTracking: true } } });
  await toolfleet.progress.onUpdate('toolfleet', onProgress);
  const tools = await toolfleet.listTools();
  const agent = new Agent({ name: 'assistant', instructions: 'Use the tools.', model, tools });
  const { text } = await agent.generate(prompt, { maxSteps: 20, abortSignal: signal });
  console.log(text);
  await toolfleet.disconnect();
  // end of recipe
}
