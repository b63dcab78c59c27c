import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  inputRequired,
  inputResponse,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import type { ExtraResult, ExtraTool } from '../extras.js';
import { fixture, textResult } from './fixture.js';

const key = randomBytes(32);
const mark = (state: string): string => createHmac('sha256', key).update(state).digest('base64url');

/** Signs the state of a call that waits; a client can hand it back but not make it. */
const seal = (state: string): string => `${state}.${mark(state)}`;

/** The state that came back, undefined when none did. @throws ProtocolError -32602 when it is not ours */
function opened(context: ServerContext): string | undefined {
  const sent = context.mcpReq.requestState<unknown>();
  if (sent === undefined) return undefined;
  const [state = '', given = ''] = typeof sent === 'string' ? sent.split('.') : [];
  const [wanted, got] = [Buffer.from(mark(state)), Buffer.from(given)];
  if (wanted.length !== got.length || !timingSafeEqual(wanted, got)) {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Invalid or expired requestState');
  }
  return state;
}

/** A form with one required field. */
export const form = (message: string, field: string, type: 'string' | 'boolean' = 'string') =>
  inputRequired.elicit({
    message,
    requestedSchema: {
      type: 'object',
      properties: { [field]: type === 'string' ? { type: 'string' } : { type: 'boolean' } },
      required: [field],
    },
  });

/** The accepted value of a field, when it is of the type that was asked for. */
export function answered(context: ServerContext, name: string, field: string): string | boolean | undefined {
  const value = acceptedContent(context.mcpReq.inputResponses, name)?.[field];
  return typeof value === 'string' || typeof value === 'boolean' ? value : undefined;
}

const sampling = (text: string, maxTokens: number) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text } }], maxTokens });

const asking = (inputRequests: Parameters<typeof inputRequired>[0]['inputRequests'], state?: string): ExtraResult =>
  inputRequired({ inputRequests, ...(state === undefined ? {} : { requestState: seal(state) }) }) as ExtraResult;

/** Tools of 2026-07-28 that need something from the client before they answer. */
export function inputFixtures(): ExtraTool[] {
  const name = 'test_input_required_result_';
  const whoAreYou = () => form('What is your name?', 'name');
  return [
    fixture(`${name}elicitation`, 'Asks for a name', (_args, context) => {
      const given = answered(context, 'user_name', 'name');
      return given === undefined ? asking({ user_name: whoAreYou() }) : textResult(`Hello, ${given}!`);
    }),
    fixture(`${name}sampling`, 'Asks the client`s model', (_args, context) => {
      const view = inputResponse(context.mcpReq.inputResponses, 'capital_question');
      if (view.kind !== 'sampling')
        return asking({ capital_question: sampling('What is the capital of France?', 100) });
      return textResult(`The model says: ${JSON.stringify(context.mcpReq.inputResponses?.['capital_question'])}`);
    }),
    fixture(`${name}list_roots`, 'Asks for the client`s roots', (_args, context) => {
      const answer = context.mcpReq.inputResponses?.['client_roots'];
      if (!isJsonObject(answer) || !Array.isArray(answer['roots']))
        return asking({ client_roots: inputRequired.listRoots() });
      return textResult(`Roots: ${JSON.stringify(answer['roots'])}`);
    }),
    fixture(`${name}request_state`, 'Hands out a signed state', (_args, context) => {
      const state = opened(context);
      const confirmed = answered(context, 'confirm', 'ok') !== undefined;
      return state === 'confirm' && confirmed
        ? textResult('state-ok')
        : asking({ confirm: form('Please confirm', 'ok', 'boolean') }, 'confirm');
    }),
    fixture(`${name}multiple_inputs`, 'Asks three things at once', (_args, context) => {
      const state = opened(context);
      const all = ['user_name', 'greeting', 'client_roots'].every(
        (entry) => context.mcpReq.inputResponses?.[entry] !== undefined,
      );
      if (state === 'several' && all) return textResult('all answers are here');
      return asking(
        {
          user_name: whoAreYou(),
          greeting: sampling('Generate a greeting', 50),
          client_roots: inputRequired.listRoots(),
        },
        'several',
      );
    }),
    fixture(`${name}multi_round`, 'Asks twice', (_args, context) => {
      const state = opened(context);
      const first = answered(context, 'step1', 'name');
      const second = answered(context, 'step2', 'color');
      if (state?.startsWith('2-') && second !== undefined) return textResult(`${state.slice(2)} likes ${second}`);
      if (state === '1' && first !== undefined) {
        const known = Buffer.from(String(first)).toString('base64url');
        return asking({ step2: form('Step 2: What is your favorite color?', 'color') }, `2-${known}`);
      }
      return asking({ step1: form('Step 1: What is your name?', 'name') }, '1');
    }),
    fixture(`${name}tampered_state`, 'Refuses a state it did not sign', (_args, context) => {
      const state = opened(context);
      return state === undefined
        ? asking({ confirm: form('Please confirm', 'ok', 'boolean') }, 'intact')
        : textResult('intact');
    }),
    fixture(`${name}capabilities`, 'Asks only what the client can answer', (_args, context) => {
      if (context.mcpReq.inputResponses) return textResult('thank you');
      const declared = (context.mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
      const can = (capability: string) => isJsonObject(declared) && isJsonObject(declared[capability]);
      const inputRequests = {
        ...(can('elicitation') ? { user_name: whoAreYou() } : {}),
        ...(can('sampling') ? { greeting: sampling('Generate a greeting', 50) } : {}),
      };
      return Object.keys(inputRequests).length > 0 ? asking(inputRequests) : textResult('nothing can be asked');
    }),
    fixture('test_streaming_elicitation', 'Asks inside its own answer', async (_args, context) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      if (progressToken !== undefined) {
        await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 1 } });
      }
      const given = answered(context, 'user_name', 'name');
      return given === undefined ? asking({ user_name: whoAreYou() }) : textResult(`Hello, ${given}!`);
    }),
  ];
}
