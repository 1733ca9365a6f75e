import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { dnsRecords, dnsZones } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import classes from './Dns.module.css'
import { fullName, hasNumber, recordShape, recordTypes } from './record'

/** The form for a record. Fields and help depend on the type. */
function useForm() {
  const { t } = useTranslation('dns')
  const { zone: id } = useParams({ strict: false }) as { zone: string }
  const zones = useQuery({ queryKey: [dnsZones.kind], queryFn: dnsZones.list })
  const zone = zones.data?.find((one) => one.id === id)?.name ?? ''
  const fields: Fields<'dns.record'> = [
    {
      name: 'type',
      type: 'select',
      choices: recordTypes.map((value) => ({ value, label: t(`record.types.${value}`) })),
    },
    { name: 'name', type: 'mono', help: ({ name }) => <FullName typed={String(name ?? '')} zone={zone} /> },
    {
      name: 'value',
      type: 'mono',
      help: ({ type }) => t(`record.value.helps.${type}`),
      placeholder: ({ type }) => t(`record.value.examples.${type}`),
    },
    { name: 'priority', type: 'number', when: hasNumber('priority') },
    { name: 'weight', type: 'number', when: hasNumber('weight') },
    { name: 'port', type: 'number', when: hasNumber('port') },
    { name: 'ttl', type: 'span' },
  ]
  return {
    resource: dnsRecords,
    text: 'dns:record',
    list: paths.dnsZone(id),
    fields,
    shape: recordShape(id),
    zone,
  }
}

function FullName({ typed, zone }: { typed: string; zone: string }) {
  const { t } = useTranslation('dns')
  return (
    <>
      {t('record.name.help')}
      <span aria-live="polite" className={classes.full}>
        {t('record.name.full')} <b className="mono">{fullName(typed, zone)}</b>
      </span>
    </>
  )
}

const defaults = { type: 'A' }

export function Create() {
  const { zone: _, ...form } = useForm()
  return <CreateDrawer {...form} defaults={defaults} />
}

export function Edit() {
  const { zone, ...form } = useForm()
  return <EditDrawer {...form} name={(row) => `${fullName(row.name, zone)} ${row.type}`} />
}
