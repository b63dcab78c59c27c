import { CodedError, isCodedError, SystemClock } from '@toolfleet/base';
import { readJson, toExactJson } from '@toolfleet/base/json-text';

// Integers keep their digits: large ones are BigInt. A number out of range is refused.
const { value } = readJson(Buffer.from('{"id": 9007199254740993}'));
console.log(value, toExactJson(value), JSON.stringify(value));
const { fault, message } = readJson(Buffer.from('{"id": 1e400}'));
console.log(fault, message);

// An error has a code that programs decide by; what it quotes is cut.
const error = new CodedError('NETWORK_ERROR', {
  message: 'x'.repeat(1_000_000),
  facts: { delivered: false },
});
console.log(isCodedError(error), error.code, error.facts, error.message.length);

// Time comes from a clock, so that a test can pass a fake one. Its timers keep no process alive.
const clock = new SystemClock();
const cancel = clock.after(1_000, () => console.log('late'));
cancel();
