// recipe
import { createMCPClient } from '@ai-sdk/mcp';
import { generateText, isStepCount } from 'ai';
// end of recipe
import { scriptedAiSdkModel } from '../ai-sdk-model.mjs';

export { picturesInAiSdk as picturesIn } from '../ai-sdk-model.mjs';
export const scriptedModel = scriptedAiSdkModel;

export async function recipe({ url, key, model, prompt, signal }) {
  // recipe
  const headers = { Authorization: `Bearer ${key}` };
  const toolfleet = await createMCPClient({ transport: { type: 'http', url, headers } });
  const tools = await toolfleet.tools();
  const { text } = await generateText({ model, tools, prompt, stopWhen: isStepCount(20), abortSignal: signal });
  console.log(text);
  await toolfleet.close();
  // end of recipe
}
