import { Button, Group, NumberInput, Select, TextInput } from '@mantine/core'
import { IconRoute, IconUser } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { live } from '../../api/live'
import { Choice } from '../../kit/form/Choice'
import type { ListSearch } from '../../kit/list/list-logic'
import { useBook } from './book'
import classes from './Firewall.module.css'

interface ExplainFormProps {
  search: ListSearch
  faults: Record<string, string>
  busy: boolean
}

const protocols = ['tcp', 'udp', 'icmp', 'icmpv6']

export function ExplainForm({ search, faults, busy }: ExplainFormProps) {
  const { t } = useTranslation('firewall')
  const navigate = useNavigate()
  const links = useQuery({
    queryKey: ['system', 'interfaces'],
    queryFn: async () => live(await unwrap(http.GET('/system/interfaces'))),
  })
  const { zones } = useBook().lists
  const [values, setValues] = useState<ListSearch>({ protocol: 'tcp', in: 'zone:lan', ...search, mine: undefined })
  const put = (name: string) => (value: string | number | null) =>
    setValues((old) => ({ ...old, [name]: value === null || value === '' ? undefined : String(value) }))
  const ask = (next: ListSearch) => void navigate({ to: '.', search: next, replace: true } as never)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    ask(values)
  }
  const names = (links.data ?? []).map(({ ifname }) => ifname).filter((name) => name !== 'lo')
  const choices = [
    { group: t('explain.zones'), items: zones.map(({ name }) => ({ value: `zone:${name}`, label: name })) },
    {
      group: t('explain.interfaces'),
      items: [...new Set([...names, ...named(search.in)])].map((name) => ({
        value: `interface:${name}`,
        label: name,
      })),
    },
  ]
  const ported = values.protocol === 'tcp' || values.protocol === 'udp'
  const text = (name: string, placeholder?: string) => (
    <TextInput
      label={t(`explain.${name}`)}
      placeholder={placeholder}
      classNames={{ input: 'mono' }}
      value={values[name] ?? ''}
      onChange={(event) => put(name)(event.currentTarget.value.trim())}
      error={faults[name]}
    />
  )
  const number = (name: string, max: number) => (
    <NumberInput
      label={t(`explain.${name}`)}
      value={values[name] ?? ''}
      onChange={put(name)}
      min={name === 'icmp_type' ? 0 : 1}
      max={max}
      allowDecimal={false}
      hideControls
      error={faults[name]}
    />
  )
  return (
    <form onSubmit={submit}>
      <div className={classes.question}>
        <Choice
          label={t('explain.in')}
          data={choices}
          value={values.in ?? null}
          onChange={put('in')}
          error={faults.in_interface ?? faults.in_zone}
        />
        {text('source', '10.10.0.2')}
        {text('destination', '198.51.100.2')}
        <Select
          label={t('explain.protocol')}
          data={protocols}
          value={values.protocol ?? null}
          onChange={put('protocol')}
          allowDeselect={false}
          error={faults.protocol}
        />
        {ported ? number('destination_port', 65_535) : number('icmp_type', 255)}
        {ported && number('source_port', 65_535)}
        {text('out_interface', t('explain.byRoutes'))}
      </div>
      <Group gap="xs" mt="md">
        <Button type="submit" leftSection={<IconRoute size={16} />} loading={busy}>
          {t('explain.ask')}
        </Button>
        <Button variant="default" leftSection={<IconUser size={16} />} onClick={() => ask({ mine: 'true' })}>
          {t('explain.mine')}
        </Button>
      </Group>
    </form>
  )
}

/** The interface from the address bar, which may not be in any zone. */
const named = (into: string | undefined) => (into?.startsWith('interface:') ? [into.slice('interface:'.length)] : [])
