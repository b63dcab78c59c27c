import { useId, type ComponentProps } from 'react';
import { inputTime } from '../format.js';
import { replacePlace, toFilteredAddress, type PlaceFilter } from '../router.js';
import { useSigned } from '../session.js';
import { Choice, TextInput } from '../ui/components.js';
import { isPeriod } from './call-filter.js';
import { CALL_STATUS } from './call-status.js';

const PERIODS = [
  ['', 'Any time'],
  ['15m', 'Last 15 minutes'],
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
] as const;
/** The choice of two instants instead of a period. */
const BETWEEN = 'between';
const DAY_MS = 86_400_000;
/** Filters that are shown on demand. */
const MORE = ['user_id', 'key_id', 'code', 'slower_than_ms', 'tenant_id'] as const;

type Change = (changes: Record<string, string | undefined>) => void;

/** The filters of the list of calls. They are in the address, so that a link or a reload shows the same calls. `tools`: suggestions. */
export function CallFilterForm({ filter, tools }: { filter: PlaceFilter; tools: readonly string[] }) {
  const { me } = useSigned();
  const suggestions = useId();
  const change: Change = (changes) => replacePlace(toFilteredAddress('calls', { ...filter, ...changes }));
  const input = (name: string, label: string, more: Partial<ComponentProps<typeof TextInput>> = {}) => (
    <TextInput {...more} label={label} value={filter[name] ?? ''} onChange={(text) => change({ [name]: text })} />
  );
  return (
    <search className="stack tight">
      <div className="filters">
        {input('id', 'Call id', { type: 'search', placeholder: 'Beginning of an id' })}
        {input('tool', 'Tool', { list: suggestions, placeholder: 'Any' })}
        <Choice
          label="Status"
          value={filter['status'] ?? ''}
          onChange={(status) => change({ status })}
          options={STATUSES}
        />
        <PeriodFilter filter={filter} onChange={change} />
      </div>
      {isBetween(filter) && (
        <div className="filters equal">
          <InstantInput label="From" instant={filter['from']} onInstant={(from) => change({ from })} />
          <InstantInput label="To" instant={filter['to']} onInstant={(to) => change({ to })} />
        </div>
      )}
      <details open={MORE.some((name) => filter[name] !== undefined)}>
        <summary>More filters</summary>
        <div className="filters equal">
          {input('user_id', 'User', { placeholder: 'Any' })}
          {input('key_id', 'Key', { placeholder: 'Id of an API key' })}
          {input('code', 'Error code', { placeholder: 'RATE_LIMITED' })}
          {input('slower_than_ms', 'Slower than (ms)', { type: 'number', min: 0 })}
          {me.operator && input('tenant_id', 'Tenant', { placeholder: 'Any' })}
        </div>
      </details>
      <datalist id={suggestions}>
        {tools.map((tool) => (
          <option key={tool} value={tool} />
        ))}
      </datalist>
    </search>
  );
}

const STATUSES: readonly (readonly [string, string])[] = [
  ['', 'All'],
  ['failure', 'not successful'],
  ...Object.entries(CALL_STATUS).map(([status, [, text]]) => [status, text] as const),
];

/** Whether two instants limit the calls, instead of a period that ends now. */
const isBetween = ({ from = '', to }: PlaceFilter): boolean => to !== undefined || (from !== '' && !isPeriod(from));

function PeriodFilter({ filter, onChange }: { filter: PlaceFilter; onChange: Change }) {
  const { from = '' } = filter;
  const isOther = isPeriod(from) && !PERIODS.some(([period]) => period === from);
  const choose = (period: string) =>
    onChange({ from: period === BETWEEN ? new Date(Date.now() - DAY_MS).toISOString() : period, to: undefined });
  return (
    <Choice
      label="Ended"
      value={isBetween(filter) ? BETWEEN : from}
      onChange={choose}
      options={[...PERIODS, ...(isOther ? [[from, `Last ${from}`] as const] : []), [BETWEEN, 'From … to …']]}
    />
  );
}

/** An instant in local time. */
function InstantInput({
  label,
  instant,
  onInstant,
}: {
  label: string;
  instant: string | undefined;
  onInstant: (instant: string | undefined) => void;
}) {
  return (
    <TextInput
      label={label}
      type="datetime-local"
      value={inputTime(instant)}
      onChange={(text) => onInstant(text === '' ? undefined : new Date(text).toISOString())}
    />
  );
}
