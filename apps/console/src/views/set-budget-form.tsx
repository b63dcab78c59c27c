import type { RouteRequest, ToolCallError } from '@toolfleet/client';
import { useState, type FormEvent } from 'react';
import { useSigned } from '../session.js';
import { Choice, ErrorNotice, Labelled } from '../ui/components.js';
import { asToolError } from '../use-query.js';
import { TestRule } from './test-rule.js';

type SetBudget = RouteRequest<'PUT /api/v1/budgets'>['body'];
const EMPTY = { subject: 'user', id: '', period: 'month', usd: '', tokens: '' };

/** Sets the budget of a user or key, and for operators of a tenant. */
export function SetBudgetForm({ onSet }: { onSet: () => void }) {
  const { api, me } = useSigned();
  const [texts, setTexts] = useState(EMPTY);
  const [error, setError] = useState<ToolCallError>();
  const isTenant = texts.subject === 'tenant';
  const isIncomplete = texts.id.trim() === '' || (texts.usd === '' && texts.tokens === '');
  const named = isTenant ? { tenant_id: texts.id.trim() } : { id: texts.id.trim() };
  const budget = {
    subject: texts.subject as SetBudget['subject'],
    period: texts.period as NonNullable<SetBudget['period']>,
    limit_usd: texts.usd === '' ? undefined : Number(texts.usd),
    limit_tokens: texts.tokens === '' ? undefined : Number(texts.tokens),
  };

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setError(undefined);
    try {
      await api.setBudget({ ...named, ...budget });
      setTexts(EMPTY);
      onSet();
    } catch (thrown) {
      setError(asToolError(thrown));
    }
  };
  const change = (name: keyof typeof EMPTY) => (value: string) => setTexts({ ...texts, [name]: value });
  const number = (name: 'usd' | 'tokens', label: string, step: string) => (
    <Labelled label={label}>
      {(id) => (
        <input
          id={id}
          type="number"
          min="0"
          step={step}
          value={texts[name]}
          onChange={(event) => change(name)(event.target.value)}
        />
      )}
    </Labelled>
  );
  return (
    <form className="card stack" aria-label="Set a budget" onSubmit={(event) => void submit(event)}>
      <h2>Set a budget</h2>
      <div className="filters">
        <Choice
          label="Of a"
          value={texts.subject}
          onChange={change('subject')}
          options={[
            ['user', 'User'],
            ['key', 'API key'],
            ...(me.rights.includes('operate_fleet') ? [['tenant', 'Tenant'] as const] : []),
          ]}
        />
        <Labelled label={isTenant ? 'Tenant' : texts.subject === 'key' ? 'Id of the key' : 'Id of the user'}>
          {(id) => <input id={id} required value={texts.id} onChange={(event) => change('id')(event.target.value)} />}
        </Labelled>
        <Choice
          label="Each"
          value={texts.period}
          onChange={change('period')}
          options={[
            ['day', 'Day (UTC)'],
            ['month', 'Month (UTC)'],
            ['total', 'In total'],
          ]}
        />
        {number('usd', 'USD', '0.000001')}
        {number('tokens', 'Tokens', '1')}
      </div>
      {error && <ErrorNotice error={error} />}
      <div>
        <button className="primary" disabled={isIncomplete}>
          Set
        </button>
      </div>
      <TestRule
        disabled={isIncomplete}
        rule={() => (isTenant ? { budget, ...named } : { budget: { ...budget, ...named } })}
      />
    </form>
  );
}
