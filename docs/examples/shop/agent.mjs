/** An agent: gives the tools of the fleet to a model with the OpenAI chat API, and makes the calls that the model asks for. */
const { TOOLFLEET_URL, TOOLFLEET_API_KEY, LLM_BASE_URL, LLM_API_KEY = 'none', LLM_MODEL = 'sample' } = process.env;
const query = process.env.TOOLSET ? `&toolset=${process.env.TOOLSET}` : '';

async function request(url, key, body) {
  const response = await fetch(url, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

const tools = await request(`${TOOLFLEET_URL}/api/v1/tools?format=openai${query}`, TOOLFLEET_API_KEY);
const messages = [{ role: 'user', content: process.argv[2] }];
for (;;) {
  const { choices } = await request(`${LLM_BASE_URL}/chat/completions`, LLM_API_KEY, {
    model: LLM_MODEL,
    messages,
    tools,
  });
  const { message } = choices[0];
  messages.push(message);
  if (!message.tool_calls) break;
  const batch = `${TOOLFLEET_URL}/api/v1/tools/batch-execute?format=openai${query}`;
  const answers = await request(batch, TOOLFLEET_API_KEY, message);
  messages.push(...answers);
}
process.stdout.write(`${messages.at(-1).content}\n`);
