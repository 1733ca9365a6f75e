import { Checkbox, NumberInput, SegmentedControl, TextInput } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './Adopt.module.css'
import { type Beyond as Chosen, noSite, noVpn, usualPorts } from './adoption'

interface BeyondProps {
  chosen: Chosen
  onChosen: (chosen: Chosen) => void
  /** The gateway's errors, by field. */
  complaints: Record<string, string> | undefined
}

/** The fields here that show errors. */
export const beyondFields = ['site.name', 'site.address', 'site.port', 'vpn.peer', 'vpn.endpoint']

/** The first site and the first VPN device, both optional. */
export function Beyond({ chosen, onChosen, complaints }: BeyondProps) {
  const { t } = useTranslation('network')
  const { site, vpn } = chosen
  const box = useRef<HTMLFieldSetElement>(null)
  useEffect(() => {
    if (complaints) box.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }, [complaints])
  const setSite = (part: object) => onChosen({ ...chosen, site: { ...noSite, ...site, ...part } })
  const setVpn = (part: object) => onChosen({ ...chosen, vpn: { ...noVpn, ...vpn, ...part } })
  const common = (name: string) => ({
    label: t(`beyond.${name}.label`),
    description: t(`beyond.${name}.help`),
    error: complaints?.[name],
    classNames: { input: 'mono' },
  })
  return (
    <fieldset ref={box} className={classes.starter}>
      <legend>{t('beyond.title')}</legend>
      <Checkbox
        label={t('beyond.site.label')}
        description={t('beyond.site.help')}
        checked={Boolean(site)}
        onChange={(event) => onChosen({ ...chosen, site: event.currentTarget.checked ? noSite : undefined })}
      />
      {site && (
        <div className={classes.addresses}>
          <TextInput
            {...common('site.name')}
            placeholder="www.example.net"
            value={site.name}
            onChange={(event) => setSite({ name: event.currentTarget.value.trim() })}
          />
          <TextInput
            {...common('site.address')}
            value={site.address}
            onChange={(event) => setSite({ address: event.currentTarget.value.trim() })}
          />
          <div className={classes.server}>
            <div className={classes.scheme}>
              <span id="beyond-scheme">{t('beyond.site.scheme.label')}</span>
              <SegmentedControl
                aria-labelledby="beyond-scheme"
                data={[
                  { value: 'http', label: 'HTTP' },
                  { value: 'https', label: 'HTTPS' },
                ]}
                value={site.scheme}
                onChange={(scheme) => setSite({ scheme, port: usualPorts[scheme as keyof typeof usualPorts] })}
              />
            </div>
            <NumberInput
              label={t('beyond.site.port.label')}
              error={complaints?.['site.port']}
              value={site.port}
              min={1}
              max={65_535}
              onChange={(port) => setSite({ port: Number(port) })}
            />
          </div>
        </div>
      )}
      <Checkbox
        label={t('beyond.vpn.label')}
        description={t('beyond.vpn.help')}
        checked={Boolean(vpn)}
        onChange={(event) => onChosen({ ...chosen, vpn: event.currentTarget.checked ? noVpn : undefined })}
      />
      {vpn && (
        <div className={classes.addresses}>
          <TextInput
            {...common('vpn.peer')}
            classNames={undefined}
            value={vpn.peer}
            onChange={(event) => setVpn({ peer: event.currentTarget.value })}
          />
          <TextInput
            {...common('vpn.endpoint')}
            value={vpn.endpoint}
            onChange={(event) => setVpn({ endpoint: event.currentTarget.value.trim() })}
          />
        </div>
      )}
    </fieldset>
  )
}
