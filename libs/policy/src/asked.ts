import { joinRules, type ApprovalRule, type GrantOffer } from '@toolfleet/contracts';
import { shownLine } from '@toolfleet/contracts/text';
import type { PolicyDecision } from './policy-engine.js';

/** A member of `ask`: a question, or a question with the conditions of its answer (docs/policy.md). */
interface AskedQuestion extends Omit<ApprovalRule, 'roles'> {
  question: string;
  roles?: readonly string[];
}

const MAX_USES = 1_000_000;
const GRANT_FIELDS = ['max_hours', 'fields', 'for', 'max_uses'];

const MAX_QUORUM = 20;
const MAX_SECONDS = 30 * 86_400;
const FIELDS = ['question', 'on_approval', 'quorum', 'roles', 'not_requester', 'expires_in_seconds', 'grant'];

/**
 * The questions of a decision, and all of their conditions together: the largest quorum, one role of each list, the shortest time.
 * The call is parked by its rules only if all of them have `on_approval`, and people may grant others only if all of them have `grant`.
 * Questions may contain arguments of the call, so each is one line without hidden characters.
 * @param members as JSON
 * @param format a member that is neither a text nor an object with a question, as a question
 * @throws Error that says which condition is invalid: the call must not run under conditions that are not understood
 */
export function readAsked(
  members: readonly unknown[],
  format: (member: unknown) => string,
): Pick<PolicyDecision, 'ask' | 'approval'> {
  if (members.length === 0) return {};
  const asked = members.map((member): AskedQuestion => {
    if (typeof member === 'string') return { question: shownLine(member) };
    return isQuestion(member) ? readQuestion(member) : { question: shownLine(format(member)) };
  });
  const ask = asked.map(({ question }) => question);
  const rules = asked.map(({ question: _question, roles, grant: _grant, ...rule }) => ({
    ...rule,
    roles: roles && [roles],
  }));
  const isPlain = asked.every(({ question: _question, ...rule }) =>
    Object.values(rule).every((one) => one === undefined),
  );
  if (isPlain) return { ask };
  const grant = joinOffers(asked.map((one) => one.grant));
  return { ask, approval: { ...joinRules(rules), grant } };
}

/** The common offer of all rules: all of their texts, the shortest time, the arguments that may differ by each of them. */
function joinOffers(offers: readonly (GrantOffer | undefined)[]): GrantOffer | undefined {
  const all = offers.filter((offer) => offer !== undefined);
  const [first] = all;
  if (!first || all.length < offers.length) return undefined;
  const uses = all.flatMap(({ max_uses: max }) => (max === undefined ? [] : [max]));
  return {
    for: [...new Set(all.flatMap((offer) => offer.for))].toSorted(),
    max_s: Math.min(...all.map((offer) => offer.max_s)),
    fields: first.fields.filter((field) => all.every((offer) => offer.fields.includes(field))),
    max_uses: uses.length > 0 ? Math.min(...uses) : undefined,
  };
}

type QuestionFields = Readonly<Record<string, unknown>>;

const isQuestion = (member: unknown): member is QuestionFields =>
  typeof member === 'object' && member !== null && typeof (member as QuestionFields)['question'] === 'string';

function readQuestion(member: QuestionFields): AskedQuestion {
  const unknown = Object.keys(member).filter((name) => !FIELDS.includes(name));
  const { question, on_approval: parks, quorum, roles, not_requester: isOther, expires_in_seconds: time } = member;
  const fault = [
    unknown.length > 0 && `has no field ${unknown.join(', ')}`,
    parks !== undefined && parks !== 'park' && 'on_approval must be "park"',
    quorum !== undefined && !isWhole(quorum, MAX_QUORUM) && `quorum must be an integer from 1 to ${MAX_QUORUM}`,
    roles !== undefined && !isNames(roles) && 'roles must be names',
    isOther !== undefined && typeof isOther !== 'boolean' && 'not_requester must be true or false',
    time !== undefined &&
      !isWhole(time, MAX_SECONDS) &&
      `expires_in_seconds must be an integer from 1 to ${MAX_SECONDS}`,
    member['grant'] !== undefined && grantFault(member['grant']),
  ].find((reason) => reason !== false);
  if (fault !== undefined) throw new Error(`ask ${JSON.stringify(question)}: ${fault}`);
  return {
    question: shownLine(question as string),
    parks: parks === 'park' || undefined,
    quorum: numberOf(quorum),
    roles: roles as string[] | undefined,
    not_requester: isOther === true || undefined,
    expires_in_s: numberOf(time),
    grant: member['grant'] === undefined ? undefined : readOffer(member['grant'] as QuestionFields, question as string),
  };
}

/** The fault of the member `grant`; false without one. */
function grantFault(grant: unknown): string | false {
  if (typeof grant !== 'object' || grant === null || Array.isArray(grant)) return 'grant must be an object';
  const { max_hours: hours, fields, for: covered, max_uses: uses } = grant as QuestionFields;
  const unknown = Object.keys(grant).filter((name) => !GRANT_FIELDS.includes(name));
  const faults = [
    unknown.length > 0 && `grant has no field ${unknown.join(', ')}`,
    !isWhole(hours, MAX_SECONDS / 3_600) && `grant.max_hours must be an integer from 1 to ${MAX_SECONDS / 3_600}`,
    fields !== undefined && !isNames(fields) && 'grant.fields must be names of arguments',
    covered !== undefined && (typeof covered !== 'string' || covered === '') && 'grant.for must be a string',
    uses !== undefined && !isWhole(uses, MAX_USES) && `grant.max_uses must be an integer from 1 to ${MAX_USES}`,
  ];
  return faults.find((reason) => reason !== false) ?? false;
}

/** Without its own text, a grant is for the question: a call with another question is not covered. */
const readOffer = (
  { max_hours: hours, fields, for: covered, max_uses: uses }: QuestionFields,
  question: string,
): GrantOffer => ({
  for: [shownLine((covered as string | undefined) ?? question)],
  max_s: Number(hours) * 3_600,
  fields: (fields as string[] | undefined) ?? [],
  max_uses: numberOf(uses),
});

const numberOf = (value: unknown): number | undefined => (value === undefined ? undefined : Number(value));

const isWhole = (value: unknown, max: number): boolean => {
  const isNumber = typeof value === 'number' || typeof value === 'bigint';
  return isNumber && Number.isInteger(Number(value)) && Number(value) >= 1 && Number(value) <= max;
};

const isNames = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === 'string' && name !== '');
