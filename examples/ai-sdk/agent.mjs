/** An agent of the AI SDK with the tools of a fleet over MCP. */
import { createMCPClient } from '@ai-sdk/mcp';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount } from 'ai';

const {
  OPENAI_API_KEY: apiKey,
  OPENAI_BASE_URL: baseURL = 'https://api.openai.com/v1',
  OPENAI_MODEL: model = 'gpt-4.1-mini',
  TOOLFLEET_URL,
  TOOLFLEET_API_KEY,
} = process.env;

const provider = createOpenAICompatible({ name: 'model', baseURL, apiKey });
const fleet = await createMCPClient({
  transport: {
    type: 'http',
    url: `${TOOLFLEET_URL}/mcp`,
    headers: { Authorization: `Bearer ${TOOLFLEET_API_KEY}` },
  },
});
try {
  const { text } = await generateText({
    model: provider(model),
    tools: await fleet.tools(),
    prompt: process.argv.slice(2).join(' '),
    stopWhen: isStepCount(20),
  });
  console.log(text);
} finally {
  await fleet.close();
}
